"""Programs of the half `further` that train on texts. They were committed before any of them was predicted or ran on a GPU."""

from __future__ import annotations

import copy

import torch
from language import causal
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


class Latent(nn.Module):
    """Attention whose keys and values come from one small vector for each token, with a part that is turned by the place."""

    def __init__(self, width: int, heads: int, side: int, turned: int, rank: int) -> None:
        super().__init__()
        self.heads, self.side, self.turned = heads, side, turned
        self.query, self.down = (
            nn.Linear(width, heads * (side + turned), bias=False),
            nn.Linear(width, rank + turned, bias=False),
        )
        self.norm, self.up = nn.RMSNorm(rank, eps=1e-6), nn.Linear(rank, 2 * heads * side, bias=False)
        self.out = nn.Linear(heads * side, width, bias=False)

    def turn(self, x: Tensor, angles: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * angles).flatten(-2).to(x.dtype)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        batch, length, _ = x.shape
        plain, near = (
            self.query(x).view(batch, length, self.heads, -1).transpose(1, 2).split([self.side, self.turned], -1)
        )
        small, place = self.down(x).split([self.up.in_features, self.turned], -1)
        keys, values = self.up(self.norm(small)).view(batch, length, self.heads, -1).transpose(1, 2).chunk(2, -1)
        place = self.turn(place[:, None], angles).expand(-1, self.heads, -1, -1)
        q, k = torch.cat([plain, self.turn(near, angles)], -1), torch.cat([keys, place.to(keys.dtype)], -1)
        mixed = functional.scaled_dot_product_attention(q, k, values, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Routed(nn.Module):
    """Tokens are sorted by their experts, which have places for so many; an expert that all tokens share is added."""

    def __init__(self, width: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.experts, self.chosen, self.router = experts, chosen, nn.Linear(width, experts, bias=False)
        self.register_buffer("bias", torch.zeros(experts))
        self.up = nn.Parameter(0.02 * torch.randn(experts, width, 2 * inner))
        self.down = nn.Parameter(0.02 * torch.randn(experts, inner, width))
        self.shared = Gated(width, inner)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        scores = self.router(tokens).float().sigmoid()
        _, chosen = (scores + self.bias).topk(self.chosen, 1)
        weights = scores.gather(1, chosen)
        weights = weights / (weights.sum(1, keepdim=True) + 1e-9)
        kinds, order = chosen.flatten().sort(stable=True)
        counts = functional.one_hot(kinds, self.experts).sum(0)
        rank = torch.arange(len(kinds), device=x.device) - (counts.cumsum(0) - counts)[kinds]
        places = 5 * len(kinds) // (4 * self.experts) + 1
        kept = rank < places
        row = torch.where(kept, kinds * places + rank, self.experts * places)
        packed = tokens.new_zeros(self.experts * places + 1, tokens.size(1)).index_copy(
            0, row, tokens[order // self.chosen]
        )
        gate, value = torch.bmm(packed[:-1].unflatten(0, (self.experts, places)), self.up.to(x.dtype)).chunk(2, -1)
        made = torch.bmm(functional.silu(gate) * value, self.down.to(gate.dtype)).flatten(0, 1)
        back = functional.pad(made, (0, 0, 0, 1))[row] * (weights.flatten()[order] * kept)[:, None].to(made.dtype)
        total = torch.zeros_like(tokens).index_add(0, order // self.chosen, back.to(tokens.dtype))
        if self.training:
            self.bias.add_(0.001 * (counts.float().mean() - counts).sign())
        return self.shared(x) + total.view_as(x)


class Latents(nn.Module):
    def __init__(self, words: int, width: int, layers: int, sizes: tuple[int, ...], inner: int, experts: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width, eps=1e-6) for _ in range(2 * layers + 1))
        self.mixed = nn.ModuleList(Latent(width, *sizes) for _ in range(layers))
        self.inner = nn.ModuleList(
            Routed(width, inner, experts, 3) if i else Gated(width, 4 * inner) for i in range(layers)
        )
        self.turned = sizes[2]

    def forward(self, tokens: Tensor) -> Tensor:
        rates = 10000 ** -(torch.arange(0, self.turned, 2, device=tokens.device) / self.turned)
        angles = torch.outer(torch.arange(tokens.size(1), device=tokens.device), rates)
        angles = torch.polar(torch.ones_like(angles), angles)
        x = self.words(tokens)
        for i, (mixed, inner) in enumerate(zip(self.mixed, self.inner, strict=True)):
            x = x + mixed(self.norms[2 * i](x), angles)
            x = x + inner(self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x))


def latents(setup: Setup) -> Step:
    """A small DeepSeek: attention from latent vectors, experts that are balanced by a bias, and one that all tokens share."""
    words, width, layers, length = setup.pick((15000, 640, 6, 600), (100, 32, 2, 11))
    sizes, inner, experts = setup.pick(((8, 80, 32, 192), 416, 8), ((2, 8, 4, 12), 16, 4))
    model = setup.place(Latents(words, width, layers, sizes, inner, experts))

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return train(
        setup, model, lambda: (setup.whole(words, setup.batch, length + 1),), loss_of, "adamw_fused", max_norm=1.0
    )


def soft_caps(setup: Setup) -> Step:
    """Gemma 2: logits and scores that a tanh limits, layers with and without a window, and tied weights."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    width, heads, layers, words = setup.pick((704, 8, 6, 30000), (32, 4, 2, 100))
    config = Gemma2Config(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(2400, 64), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 2, head_dim=setup.pick(88, 8), sliding_window=setup.pick(200, 8), query_pre_attn_scalar=setup.pick(88, 8),
        attn_implementation="eager", pad_token_id=0, bos_token_id=2, eos_token_id=1,
    )  # fmt: skip
    return causal(setup, Gemma2ForCausalLM(config), "adamw_foreach", words, 500, max_norm=1.0)


def gaps(setup: Setup) -> Step:
    """BART: repairs texts with gaps; paddings of questions and answers, dropout, smoothed labels."""
    from transformers import BartConfig, BartForConditionalGeneration

    words, width, layers, heads, length = setup.pick((24000, 576, 5, 9, 350), (100, 32, 2, 2, 13))
    config = BartConfig(
        vocab_size=words, d_model=width, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=heads, decoder_attention_heads=heads,
        encoder_ffn_dim=4 * width, decoder_ffn_dim=4 * width, max_position_embeddings=512, dropout=0.1, attention_dropout=0.1, use_cache=False,
    )  # fmt: skip
    model = setup.place(BartForConditionalGeneration(config))

    def make() -> Inputs:
        is_text = torch.arange(length, device=setup.device) < setup.whole(length // 2, setup.batch, 1) + length // 2
        labels = setup.whole(words - 5, setup.batch, length) + 4
        holes = torch.rand(labels.shape, device=setup.device) < 0.3
        return labels.masked_fill(holes, 4).masked_fill(~is_text, 1), is_text.long(), labels.masked_fill(~is_text, -100)

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        before = functional.pad(labels[:, :-1].clamp(min=1), (1, 0), value=2)
        scores = model(input_ids=tokens, attention_mask=mask, decoder_input_ids=before).logits
        return functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), label_smoothing=0.1)

    return train(setup, model, make, loss_of, "adam_fused", max_norm=0.1, accumulate=2)


class Retention(nn.Module):
    """A layer with a memory that fades: attention inside of a chunk, and a state from one chunk to the next."""

    def __init__(self, width: int, heads: int, chunk: int) -> None:
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.gate = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.group, self.out = nn.GroupNorm(heads, width, affine=False), nn.Linear(width, width, bias=False)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("rates", (1 - 2.0 ** (-5 - torch.arange(heads))).log(), persistent=False)

    def mix(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length // self.chunk, self.chunk, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(x).view(shape).permute(3, 0, 4, 1, 2, 5)
        k = k * (width // self.heads) ** -0.5
        places, rates = torch.arange(self.chunk, device=x.device), self.rates.float()[:, None, None]
        apart = places[:, None] - places
        fade = (rates * apart.clamp(min=0)).exp().masked_fill(apart < 0, 0)[:, None]
        near = ((q @ k.transpose(-2, -1)) * fade.to(q.dtype)) @ v
        rest = (rates * (self.chunk - 1 - places)[:, None]).exp()[:, None]
        parts = torch.einsum("bhncd,bhnce->bhnde", k * rest.to(k.dtype), v)
        state, states = torch.zeros_like(parts[:, :, 0]), []
        for part in parts.unbind(2):
            states.append(state)
            state = state * (rates * self.chunk).exp().to(part.dtype) + part
        far = torch.einsum(
            "bhncd,bhnde->bhnce", q * (rates * (places + 1)[:, None]).exp()[:, None].to(q.dtype), torch.stack(states, 2)
        )
        return (near + far).permute(0, 2, 3, 1, 4).reshape(batch * length, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        mixed = self.group(self.mix(y)).view_as(x)
        x = x + self.out(functional.silu(self.gate(y)) * mixed)
        return x + self.inner(self.norms[1](x))


def retention(setup: Setup) -> Step:
    """RetNet in chunks, in plain PyTorch."""
    words, width, heads, layers, chunk, count = setup.pick((20000, 640, 5, 9, 96, 7), (100, 32, 2, 2, 4, 3))
    layers_of = [Retention(width, heads, chunk) for _ in range(layers)]
    model = setup.place(
        nn.Sequential(nn.Embedding(words, width), *layers_of, nn.LayerNorm(width), nn.Linear(width, words))
    )
    length = chunk * count

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return train(setup, model, lambda: (setup.whole(words, setup.batch, length + 1),), loss_of, "adamw", max_norm=2.0)


def advantages(setup: Setup) -> Step:
    """GRPO: answers in groups, a clipped ratio of chances, and the distance from a frozen copy of the model."""
    from transformers import GraniteConfig, GraniteForCausalLM

    words, width, layers, group, length, prompt = setup.pick((20000, 640, 8, 4, 330, 90), (100, 32, 2, 2, 12, 4))
    config = GraniteConfig(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(1800, 64), num_hidden_layers=layers, num_attention_heads=setup.pick(10, 4),
        num_key_value_heads=2, tie_word_embeddings=True, use_cache=False, residual_multiplier=0.22, logits_scaling=4.0,
    )  # fmt: skip
    model = setup.place(GraniteForCausalLM(config))
    frozen = copy.deepcopy(model).requires_grad_(False).eval()

    def chances(model: nn.Module, tokens: Tensor, mask: Tensor) -> Tensor:
        scores = model(input_ids=tokens, attention_mask=mask).logits[:, prompt - 1 : -1]
        return scores.float().log_softmax(-1).gather(2, tokens[:, prompt:, None]).squeeze(2)

    def make() -> Inputs:
        tokens = setup.whole(words, setup.batch * group, length)
        mask = torch.arange(length, device=setup.device) < setup.whole(length - prompt, len(tokens), 1) + prompt + 1
        return tokens, mask.long(), torch.rand(setup.batch, group, device=setup.device)

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, rewards: Tensor) -> Tensor:
        gain = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).flatten()[:, None]
        with torch.no_grad():
            before = chances(frozen, tokens, mask)
        now, said = chances(model, tokens, mask), mask[:, prompt:]
        ratio = (now - now.detach()).exp()
        best = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        apart = (before - now).exp() - (before - now) - 1
        return (((0.04 * apart - best) * said).sum(1) / said.sum(1)).mean()

    return train(setup, model, make, loss_of, "adamw_fused", max_norm=0.2)


def drafts(setup: Setup) -> Step:
    """Medusa: heads on a frozen OLMo 2 that guess the words after the next one, with weights that fade."""
    from transformers import Olmo2Config, Olmo2Model

    words, width, layers, heads, length = setup.pick((20000, 640, 12, 4, 450), (100, 32, 2, 2, 14))
    config = Olmo2Config(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(1728, 64), num_hidden_layers=layers, num_attention_heads=setup.pick(10, 4),
        num_key_value_heads=setup.pick(5, 2), use_cache=False, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    trunk = setup.place(Olmo2Model(config)).requires_grad_(False).eval()
    model = setup.place(nn.ModuleList(
        nn.ModuleList([nn.Linear(width, width), nn.Linear(width, words, bias=False)]) for _ in range(heads)))  # fmt: skip

    def loss_of(model: nn.ModuleList, tokens: Tensor) -> Tensor:
        with torch.no_grad():
            state = trunk(input_ids=tokens).last_hidden_state
        total = torch.zeros((), device=tokens.device)
        for i, (inner, head) in enumerate(model):
            scores = head(state + functional.silu(inner(state)))[:, : -i - 2]
            loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, i + 2 :].flatten())
            total = total + 0.8**i * loss
        return total

    return train(
        setup, model, lambda: (setup.whole(words, setup.batch, length),), loss_of, "adamw_foreach", max_norm=1.0
    )


def ranking(setup: Setup) -> Step:
    """A cross-encoder (RoBERTa) that sorts eight documents of each question; the embeddings are frozen."""
    from transformers import RobertaConfig, RobertaForSequenceClassification

    words, width, layers, heads, length = setup.pick((36000, 528, 9, 11, 120), (100, 32, 2, 2, 14))
    config = RobertaConfig(
        vocab_size=words, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width, num_labels=1,
        max_position_embeddings=setup.pick(258, 40), pad_token_id=1,
    )  # fmt: skip
    model = setup.place(RobertaForSequenceClassification(config))
    model.roberta.embeddings.requires_grad_(False)

    def make() -> Inputs:
        tokens = setup.whole(words - 5, setup.batch * 8, length) + 4
        is_text = torch.arange(length, device=setup.device) < setup.whole(length // 2, len(tokens), 1) + length // 2
        return tokens.masked_fill(~is_text, 1), is_text.long(), torch.rand(setup.batch, 8, device=setup.device)

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, worth: Tensor) -> Tensor:
        scores = model(input_ids=tokens, attention_mask=mask).logits.float().view(-1, 8)
        ordered = scores.gather(1, worth.argsort(1, descending=True))
        below = ordered.flip(1).logcumsumexp(1).flip(1)
        return (below - ordered).sum(1).mean() + 0.1 * functional.margin_ranking_loss(
            ordered[:, :-1], ordered[:, 1:], torch.ones_like(ordered[:, 1:]), margin=0.1
        )

    return train(setup, model, make, loss_of, "adamw_loop", max_norm=1.0)


def permuted(setup: Setup) -> Step:
    """XLNet: words are guessed in a random order, with two streams of attention."""
    from transformers import XLNetConfig, XLNetLMHeadModel

    words, width, layers, heads, length = setup.pick((32000, 512, 7, 8, 256), (100, 32, 2, 2, 14))
    config = XLNetConfig(vocab_size=words, d_model=width, n_layer=layers, n_head=heads, d_inner=4 * width, dropout=0.1)
    model, wanted = setup.place(XLNetLMHeadModel(config)), length // 6

    def make() -> Inputs:
        order = torch.rand(setup.batch, length, device=setup.device).argsort(1)
        rank = order.argsort(1)
        hidden = (rank[:, None] >= rank[:, :, None]).to(setup.dtype)
        mapping = functional.one_hot(order[:, -wanted:], length).to(setup.dtype)
        tokens = setup.whole(words, setup.batch, length)
        return tokens, hidden, mapping, tokens.gather(1, order[:, -wanted:])

    def loss_of(model: nn.Module, tokens: Tensor, hidden: Tensor, mapping: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, perm_mask=hidden, target_mapping=mapping, labels=labels, use_mems=False).loss

    return train(setup, model, make, loss_of, "adam", max_norm=0.25)

"""Programs of the half `unseen` that train on texts. They were written and committed before any of them ran on a GPU."""

from __future__ import annotations

import copy

import torch
from language import causal
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from training import Inputs, Setup, Step, optimizer, train


def modernbert(setup: Setup) -> Step:
    from transformers import ModernBertConfig, ModernBertForMaskedLM

    width, layers, words, length = setup.pick((768, 12, 50368, 512), (64, 2, 100, 16))
    config = ModernBertConfig(
        vocab_size=words, hidden_size=width, intermediate_size=3 * width // 2, num_hidden_layers=layers, num_attention_heads=setup.pick(12, 4),
        pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
    )  # fmt: skip
    model = setup.place(ModernBertForMaskedLM(config))

    def make() -> Inputs:
        tokens = setup.whole(words - 4, setup.batch, length) + 4
        return tokens, torch.where(setup.whole(10, setup.batch, length) < 3, tokens, -100)

    def loss_of(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, labels=labels).loss

    return train(setup, model, make, loss_of, "adamw_fused")


def phi(setup: Setup) -> Step:
    """A model whose blocks are computed again in the backward pass; gradients of three batches, and Adafactor."""
    from transformers import PhiConfig, PhiForCausalLM

    width, layers = setup.pick((1024, 16), (64, 2))
    config = PhiConfig(
        vocab_size=setup.pick(51200, 100), hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
        num_attention_heads=setup.pick(16, 4), max_position_embeddings=2048, use_cache=False,
    )  # fmt: skip
    model = PhiForCausalLM(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return causal(setup, model, "adafactor", config.vocab_size, 1024, accumulate=3)


def dpo(setup: Setup) -> Step:
    """Direct preference optimization: two answers, a model that learns, and a frozen copy of it."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    width, layers, length, words = setup.pick((896, 12, 512, 64000), (64, 2, 16, 100))
    config = Qwen2Config(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(3584, 128), num_hidden_layers=layers,
        num_attention_heads=setup.pick(14, 4), num_key_value_heads=2, tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    model = setup.place(Qwen2ForCausalLM(config))
    reference = copy.deepcopy(model).eval().requires_grad_(False)
    steps = optimizer("rmsprop", model.parameters())

    def likelihood(model: nn.Module, tokens: Tensor) -> Tensor:
        scores = model(input_ids=tokens).logits[:, :-1].float()
        return scores.log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze(2).sum(1)

    def step() -> Tensor:
        tokens = setup.whole(words, 2 * setup.batch, length)
        with setup.autocast():
            with torch.no_grad():
                before = likelihood(reference, tokens)
            good, bad = (likelihood(model, tokens) - before).chunk(2)
        loss = -functional.logsigmoid(0.1 * (good - bad)).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        steps.zero_grad()
        return loss.detach()

    return step


class Mixture(nn.Module):
    """A block with two of eight experts for each token; an expert takes a fixed number of tokens, those over it are dropped."""

    def __init__(self, width: int, heads: int, experts: int) -> None:
        super().__init__()
        self.heads, self.experts = heads, experts
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 4 * width) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, 4 * width, width) * 0.02)

    def mixed(self, x: Tensor) -> Tensor:
        room = 2 * len(x) * 5 // (4 * self.experts)
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        order = chosen.flatten().argsort(stable=True)
        sorted_experts = chosen.flatten()[order]
        first = torch.searchsorted(sorted_experts, torch.arange(self.experts, device=x.device))
        place = torch.arange(len(order), device=x.device) - first[sorted_experts]
        slot = torch.where(place < room, sorted_experts * room + place, self.experts * room)
        sent = x.new_zeros(self.experts * room + 1, x.size(1)).index_copy(0, slot, x[order // 2])
        inner = functional.gelu(torch.bmm(sent[:-1].unflatten(0, (self.experts, room)), self.up))
        made = torch.cat([torch.bmm(inner, self.down).flatten(0, 1), x.new_zeros(1, x.size(1))])
        scaled = made[slot] * weights.flatten()[order][:, None]
        return torch.zeros_like(x).index_add(0, order // 2, scaled.to(x.dtype))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        attended = functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mixed(self.norms[1](x).flatten(0, 1)).view_as(x)


class Mixtures(nn.Module):
    def __init__(self, words: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Mixture(width, heads, 8) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for i, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=False) if i % 2 else layer(x)
        return self.head(self.norm(x))


def mixture(setup: Setup) -> Step:
    words, width, layers, length = setup.pick((32000, 512, 8, 1024), (100, 32, 2, 16))
    model = setup.place(Mixtures(words, width, layers, setup.pick(8, 4)))

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    tokens = lambda: (setup.whole(words, setup.batch, length),)  # noqa: E731
    return train(setup, model, tokens, loss_of, "adamw_foreach", max_norm=1.0)


class Relative(nn.Module):
    """A block of Transformer-XL: attention to this segment and to a memory, with relative positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.keys = nn.Linear(width, width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.places, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.content = nn.Parameter(torch.zeros(heads, width // heads))
        self.position = nn.Parameter(torch.zeros(heads, width // heads))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, memory: Tensor, places: Tensor, hidden: Tensor) -> Tensor:
        whole = torch.cat([memory.to(x.dtype), x], 1)
        q = self.query(x).unflatten(-1, (self.heads, -1))
        k, v = self.keys(whole).unflatten(-1, (2, self.heads, -1)).unbind(2)
        r = self.places(places).unflatten(-1, (self.heads, -1))
        by_content = torch.einsum("bihd,bjhd->bhij", q + self.content, k)
        by_place = torch.einsum("bihd,jhd->bhij", q + self.position, r)
        padded = functional.pad(by_place, (1, 0)).unflatten(-1, (-1,))
        batch, heads, rows, columns = padded.shape
        shifted = padded.reshape(batch, heads, columns, rows)[:, :, 1:].reshape(batch, heads, rows, columns - 1)
        scores = (by_content + shifted) * q.size(-1) ** -0.5
        weights = functional.dropout(scores.masked_fill(hidden, float("-inf")).softmax(-1), 0.1)
        x = self.norms[0](x + self.out(torch.einsum("bhij,bjhd->bihd", weights.to(v.dtype), v).flatten(2)))
        return self.norms[1](x + self.inner(x))


class Remembering(nn.Module):
    def __init__(self, words: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.ModuleList(Relative(width, heads) for _ in range(layers))

    def forward(self, tokens: Tensor, memories: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        x, length = self.words(tokens), tokens.size(1)
        whole = length + memories[0].size(1)
        far = torch.arange(whole - 1, -1, -1.0, device=x.device)
        rate = 1 / 10000 ** (torch.arange(0, x.size(2), 2.0, device=x.device) / x.size(2))
        angles = torch.outer(far, rate)
        places = torch.cat([angles.sin(), angles.cos()], 1)
        hidden = torch.ones(length, whole, dtype=torch.bool, device=x.device).triu(1 + whole - length)
        kept = []
        for layer, memory in zip(self.layers, memories, strict=True):
            kept.append(x.detach())
            x = layer(x, memory, places, hidden)
        return self.head(x), kept


def transformer_xl(setup: Setup) -> Step:
    words, width, layers, length = setup.pick((32000, 512, 8, 256), (100, 32, 2, 8))
    model = setup.place(Remembering(words, width, layers, setup.pick(8, 4)))
    steps = optimizer("adam_loop", model.parameters())
    memories = [setup.real(setup.batch, length, width) for _ in range(layers)]

    def step() -> Tensor:
        nonlocal memories
        tokens = setup.whole(words, setup.batch, length + 1)
        with setup.autocast():
            scores, memories = model(tokens[:, :-1], memories)
            loss = functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        steps.step()
        steps.zero_grad()
        return loss.detach()

    return step


def deberta(setup: Setup) -> Step:
    """Attention to contents and to positions, which gathers from products of both."""
    from transformers import DebertaV2Config, DebertaV2ForTokenClassification

    width, layers, words, length = setup.pick((512, 8, 64000, 256), (32, 2, 100, 16))
    config = DebertaV2Config(
        vocab_size=words, hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=setup.pick(8, 4),
        relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=setup.pick(128, 4), norm_rel_ebd="layer_norm",
        share_att_key=True, type_vocab_size=0, num_labels=9,
    )  # fmt: skip
    model = setup.place(DebertaV2ForTokenClassification(config))

    def loss_of(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels).loss

    make = lambda: (setup.whole(words, setup.batch, length), setup.whole(9, setup.batch, length))  # noqa: E731
    return train(setup, model, make, loss_of, "adamw", max_norm=1.0)

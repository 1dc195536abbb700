"""Programs of the half `later` that train on texts. They were committed before any of them was predicted or ran on a GPU."""

from __future__ import annotations

import math

import torch
from language import Adapted, causal
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


class Biased(nn.Module):
    """A layer whose attention has a bias for distances, with a square of ReLU in its perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (
            each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in self.qkv(self.norms[0](x)).chunk(3, 2)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), dropout_p=0.1)
        x = x + functional.dropout(self.out(mixed.transpose(1, 2).flatten(2)), 0.1)
        return x + functional.dropout(self.down(self.up(self.norms[1](x)).relu().square()), 0.1)


class Distances(nn.Module):
    def __init__(self, words: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Biased(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, bias=False), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, 0, 0.02)
        places = torch.arange(length)
        far = (places - places[:, None]).float() * 2.0 ** (-8 / heads * torch.arange(1, heads + 1))[:, None, None]
        self.register_buffer("bias", far.masked_fill(places > places[:, None], float("-inf"))[None], persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = functional.dropout(self.words(tokens), 0.1)
        for layer in self.layers:
            x = layer(x, self.bias)
        return self.head(self.norm(x))


def alibi(setup: Setup) -> Step:
    """A GPT with ALiBi and heads of 80, weights in two groups, a schedule, and a loss on the sizes of logits."""
    words, width, heads, layers, length = setup.pick((32003, 640, 8, 10, 777), (103, 32, 2, 2, 13))
    model = setup.place(Distances(words, width, heads, layers, length))
    schedules = []

    def adamw(weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        groups = [
            {"params": [each for each in weights if each.ndim > 1], "weight_decay": 0.1},
            {"params": [each for each in weights if each.ndim < 2], "weight_decay": 0.0},
        ]
        made = torch.optim.AdamW(groups, 6e-4, (0.9, 0.95), foreach=True)
        schedules.append(
            torch.optim.lr_scheduler.LambdaLR(made, lambda i: 0.5 + 0.5 * math.cos(min(i / 1000, 1) * math.pi))
        )
        return made

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        logits = model(tokens[:, :-1]).float()
        loss = functional.cross_entropy(logits.view(-1, words), tokens[:, 1:].reshape(-1))
        return (loss + 1e-4 * logits.logsumexp(2).square().mean()) / 2

    tokens = lambda: (setup.whole(words, setup.batch, length + 1),)  # noqa: E731
    step = train(setup, model, tokens, loss_of, adamw, max_norm=1.0, accumulate=2)

    def scheduled() -> Tensor:
        loss = step()
        schedules[0].step()
        return loss

    return scheduled


def mistral(setup: Setup) -> Step:
    """Grouped queries with heads of 96, and a window that is shorter than the text."""
    from transformers import MistralConfig, MistralForCausalLM

    width, heads, layers, words = setup.pick((1152, 12, 9, 40960), (64, 4, 2, 100))
    config = MistralConfig(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(3072, 96), num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 4, head_dim=width // heads, sliding_window=setup.pick(256, 8), max_position_embeddings=2048,
    )  # fmt: skip
    return causal(setup, MistralForCausalLM(config), "adamw_fused", words, 640, max_norm=0.5, accumulate=2)


def qwen_lora(setup: Setup) -> Step:
    """LoRA for all linear layers of a checkpointed model; prompts have no labels. With autocast, the frozen weights are bfloat16."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    width, layers, words, length = setup.pick((1280, 14, 50000, 555), (64, 2, 100, 15))
    config = Qwen3Config(
        vocab_size=words, hidden_size=width, intermediate_size=setup.pick(3520, 96), num_hidden_layers=layers, num_attention_heads=setup.pick(16, 4),
        num_key_value_heads=setup.pick(8, 2), head_dim=setup.pick(96, 16), tie_word_embeddings=True, use_cache=False,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).requires_grad_(False)
    if setup.precision == "bf16_autocast":
        model = model.bfloat16()
    for module in [*model.modules()]:
        for name, part in [*module.named_children()]:
            if isinstance(part, nn.Linear) and name.endswith("_proj"):
                setattr(module, name, Adapted(part, 12))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    # Not setup.place: frozen weights and adapters have different types.
    model = model.to(setup.device, setup.dtype if setup.precision == "bf16" else None).train()
    prompt = length // 3

    def make() -> Inputs:
        tokens = setup.whole(words, setup.batch, length)
        labels = tokens.clone()
        labels[:, :prompt] = -100
        return tokens, torch.ones_like(tokens), labels

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss

    adamw = lambda weights: torch.optim.AdamW(weights, 2e-4, weight_decay=0.0, foreach=True)  # noqa: E731
    return train(setup, model, make, loss_of, adamw, max_norm=0.3)


class Lion(torch.optim.Optimizer):
    """Steps of one size, in the direction of a sign; one state for each weight."""

    def __init__(self, weights: list[nn.Parameter], lr: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(weights, {"lr": lr, "betas": betas, "weight_decay": 0.1})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            slow, fast = group["betas"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["average"] = torch.zeros_like(weight)
                average = state["average"]
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                update = average.mul(slow).add(weight.grad, alpha=1 - slow).sign_()
                weight.add_(update, alpha=-group["lr"])
                average.lerp_(weight.grad, 1 - fast)


def gated_t5(setup: Setup) -> Step:
    """The T5 of 2020, with gates, seven heads, separate embeddings, and padding on both sides."""
    from transformers import T5Config, T5ForConditionalGeneration

    width, heads, layers, words = setup.pick((448, 7, 7, 32128), (32, 2, 2, 100))
    config = T5Config(
        vocab_size=words, d_model=width, d_kv=width // heads, d_ff=setup.pick(1216, 48), num_layers=layers, num_decoder_layers=layers - 1,
        num_heads=heads, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0, use_cache=False,
    )  # fmt: skip
    model = setup.place(T5ForConditionalGeneration(config))
    length, answer = setup.pick((403, 101), (13, 7))

    def make() -> Inputs:
        sizes = setup.whole(length // 2, setup.batch, 1) + length // 2
        mask = (torch.arange(length, device=setup.device) < sizes).long()
        labels = setup.whole(words, setup.batch, answer)
        ends = setup.whole(answer // 2, setup.batch, 1) + answer // 2
        labels = labels.masked_fill(torch.arange(answer, device=setup.device) >= ends, -100)
        return setup.whole(words, setup.batch, length), mask, labels

    def loss_of(model: nn.Module, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        return model(input_ids=tokens, attention_mask=mask, labels=labels).loss

    return train(setup, model, make, loss_of, lambda weights: Lion(weights, 1e-4), max_norm=1.0)


class Lamb(torch.optim.Optimizer):
    """Adam, with a rate for each tensor by the norms of its weights and its change."""

    def __init__(self, weights: list[nn.Parameter], lr: float) -> None:
        super().__init__(weights, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state.update(count=0, first=torch.zeros_like(weight), second=torch.zeros_like(weight))
                state["count"] += 1
                first, second = state["first"], state["second"]
                first.mul_(0.9).add_(weight.grad, alpha=0.1)
                second.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
                spread = (second / (1 - 0.999 ** state["count"])).sqrt().add_(1e-6)
                change = (first / (1 - 0.9 ** state["count"])) / spread + 0.01 * weight
                size, moved = weight.norm().clamp(max=10), change.norm()
                trust = torch.where((size > 0) & (moved > 0), size / moved, torch.ones_like(size))
                weight.sub_(change * trust * group["lr"])


def electra(setup: Setup) -> Step:
    """A small model fills gaps, samples words for them, and a larger one finds which words were replaced."""
    from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

    words, width, layers, length = setup.pick((30522, 512, 10, 448), (100, 32, 2, 14))
    shape = {"vocab_size": words, "embedding_size": setup.pick(128, 16), "num_hidden_layers": layers}
    small = ElectraConfig(
        **shape, hidden_size=width // 2, intermediate_size=width, num_attention_heads=setup.pick(4, 2)
    )
    large = ElectraConfig(**shape, hidden_size=width, intermediate_size=4 * width, num_attention_heads=setup.pick(8, 2))
    filler, finder = ElectraForMaskedLM(small), ElectraForPreTraining(large)
    finder.electra.embeddings.word_embeddings = filler.electra.embeddings.word_embeddings
    model = setup.place(nn.ModuleList([filler, finder]))

    def make() -> Inputs:
        sizes = setup.whole(length // 2, setup.batch, 1) + length // 2 + 1
        mask = torch.arange(length, device=setup.device) < sizes
        hidden = (torch.rand(setup.batch, length, device=setup.device) < 0.15) & mask
        return setup.whole(words, setup.batch, length), mask, hidden

    def loss_of(model: nn.ModuleList, tokens: Tensor, mask: Tensor, hidden: Tensor) -> Tensor:
        scores = model[0](input_ids=tokens.masked_fill(hidden, 99), attention_mask=mask.long()).logits
        loss = functional.cross_entropy(scores.flatten(0, 1), tokens.masked_fill(~hidden, -100).flatten())
        with torch.no_grad():
            noise = -torch.empty_like(scores, dtype=torch.float32).exponential_().log()
            replaced = torch.where(hidden, (scores.float() + noise).argmax(-1), tokens)
        is_other = (replaced != tokens).float()
        found = model[1](input_ids=replaced, attention_mask=mask.long()).logits.float()
        each = functional.binary_cross_entropy_with_logits(found, is_other, reduction="none")
        return loss + 50 * (each * mask).sum() / mask.sum()

    return train(setup, model, make, loss_of, lambda weights: Lamb(weights, 1e-3))


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2).to(x.dtype)


class Chosen(nn.Module):
    """Experts that choose their tokens, next to one that reads all of them."""

    def __init__(self, width: int, inner: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * inner) * 0.02)
        self.down = nn.Parameter(torch.randn(experts, inner, width) * 0.02)
        self.shared = nn.Sequential(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.flatten(0, 1)
        scores = self.router(tokens).float()
        weights, places = scores.softmax(1).T.topk(2 * len(tokens) // scores.size(1), 1)
        gate, value = torch.einsum("ecd,edf->ecf", tokens[places], self.up.to(x.dtype)).chunk(2, 2)
        made = torch.einsum("ecf,efd->ecd", functional.silu(gate) * value, self.down.to(x.dtype))
        made = (made * weights[..., None].to(made.dtype)).flatten(0, 1)
        total = made.new_zeros(tokens.shape).index_add_(0, places.flatten(), made)
        return self.shared(x) + total.view_as(x), scores.logsumexp(1).square().mean()


class Sparse(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, experts: int) -> None:
        super().__init__()
        self.heads, self.groups, side = heads, groups, width // heads
        self.first, self.second = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.query, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, 2 * groups * side, bias=False)
        self.inner: nn.Module = Chosen(width, 2 * width, experts) if experts else nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))  # fmt: skip

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor | None]:
        y = self.first(x)
        q = turned(self.query(y).unflatten(2, (self.heads, -1)).transpose(1, 2), cosine, sine)
        k, v = self.keys(y).unflatten(2, (2, self.groups, -1)).permute(2, 0, 3, 1, 4)
        k = turned(k, cosine, sine)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        found = self.inner(self.second(x))
        return (x + found[0], found[1]) if isinstance(found, tuple) else (x + found, None)


class SparseModel(nn.Module):
    def __init__(self, words: int, width: int, heads: int, layers: int, experts: int, length: int) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.layers = nn.ModuleList(Sparse(width, heads, heads // 3, experts if i % 2 else 0) for i in range(layers))
        self.norm, side = nn.RMSNorm(width, eps=1e-5), width // heads
        angles = torch.outer(torch.arange(length), 5e5 ** (-torch.arange(0, side, 2) / side))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x, sizes = self.words(tokens), []
        for layer in self.layers:
            x, size = layer(x, self.cosine, self.sine)
            if size is not None:
                sizes.append(size)
        return self.head(self.norm(x)), torch.stack(sizes).sum()


def expert_choice(setup: Setup) -> Step:
    words, width, heads, layers, length = setup.pick((24007, 576, 6, 6, 600), (100, 48, 3, 2, 12))
    model = setup.place(SparseModel(words, width, heads, layers, setup.pick(12, 3), length))

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        logits, sizes = model(tokens[:, :-1])
        return functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:]) + 1e-3 * sizes

    tokens = lambda: (setup.whole(words, setup.batch, length + 1),)  # noqa: E731
    radam = lambda weights: torch.optim.RAdam(weights, 3e-4, weight_decay=0.01, decoupled_weight_decay=True)  # noqa: E731
    return train(setup, model, tokens, loss_of, radam, max_norm=1.0)


class Packed(nn.Module):
    """Recurrent layers in both directions over texts of different lengths, and attention that sums up each text."""

    def __init__(self, words: int, width: int, tags: int, topics: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, 200, padding_idx=0)
        self.reader = nn.LSTM(200, width, 2, batch_first=True, bidirectional=True, dropout=0.25)
        self.weigh = nn.Sequential(nn.Linear(2 * width, width), nn.Tanh(), nn.Linear(width, 4, bias=False))
        self.tags = nn.utils.parametrizations.weight_norm(nn.Linear(2 * width, tags))
        self.topics = nn.Linear(8 * width, topics)

    def forward(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.dropout(self.words(tokens), 0.3)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        read, _ = nn.utils.rnn.pad_packed_sequence(
            self.reader(packed)[0], batch_first=True, total_length=tokens.size(1)
        )
        scores = self.weigh(read).masked_fill((tokens == 0)[..., None], -1e4)
        summed = torch.bmm(scores.softmax(1).to(read.dtype).transpose(1, 2), read)
        return self.tags(read), self.topics(summed.flatten(1))


def packed(setup: Setup) -> Step:
    words, length, tags, topics = setup.pick((25013, 250, 45, 90), (60, 11, 5, 4))
    model = setup.place(Packed(words, setup.pick(384, 12), tags, topics))
    lengths = torch.tensor([length - 7 * i % (length // 2) for i in range(setup.batch)])
    is_padding = torch.arange(length, device=setup.device) >= lengths.to(setup.device)[:, None]

    def make() -> Inputs:
        tokens = (setup.whole(words - 1, setup.batch, length) + 1).masked_fill(is_padding, 0)
        labels = setup.whole(tags, setup.batch, length).masked_fill(is_padding, -1)
        return tokens, labels, setup.whole(2, setup.batch, topics).float()

    def loss_of(model: nn.Module, tokens: Tensor, labels: Tensor, about: Tensor) -> Tensor:
        found, topics = model(tokens, lengths)
        loss = functional.nll_loss(found.log_softmax(2).flatten(0, 1), labels.flatten(), ignore_index=-1)
        return loss + functional.multilabel_soft_margin_loss(topics.float(), about)

    return train(setup, model, make, loss_of, lambda weights: torch.optim.Adamax(weights, 2e-3), max_norm=2.0)

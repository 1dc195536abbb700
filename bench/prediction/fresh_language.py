"""Programs of the half `fresh` that train on texts. They were written and measured once, and no rule was changed in between."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


def siglip(setup: Setup) -> Step:
    """Two towers, one for images and one for texts, with a loss for each pair."""
    from transformers import SiglipConfig, SiglipModel

    width, layers, size = setup.pick((512, 8, 224), (64, 2, 64))
    shape = {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
    }
    config = SiglipConfig(
        text_config={**shape, "vocab_size": 32000, "max_position_embeddings": 64},
        vision_config={**shape, "image_size": size, "patch_size": 16},
    )
    model = setup.place(SiglipModel(config))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(32000, setup.batch, 64)

    def loss_of(model: nn.Module, images: Tensor, texts: Tensor) -> Tensor:
        return model(input_ids=texts, pixel_values=images, return_loss=True).loss

    return train(setup, model, make, loss_of, "adamw_foreach", max_norm=1.0)


class Translator(nn.Module):
    """Recurrent layers that read, a recurrent cell that writes, and attention of each word to what was read."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.reader = nn.GRU(width, width // 2, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.writer, self.query = nn.GRUCell(2 * width, width), nn.Linear(width, width)
        self.head = nn.Linear(2 * width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        read = self.reader(self.words(source))[0]
        state, found = read.mean(1), []
        context = state
        for word in self.words(target).unbind(1):
            state = self.writer(torch.cat([word, context.to(word.dtype)], 1), state.to(word.dtype))
            weights = torch.bmm(read, self.query(state).to(read.dtype)[..., None]).softmax(1)
            context = (weights.to(read.dtype) * read).sum(1)
            found.append(torch.cat([state, context.to(state.dtype)], 1))
        return self.head(torch.stack(found, 1))


def seq2seq(setup: Setup) -> Step:
    words, length = setup.pick((16000, 40), (100, 6))
    model = setup.place(Translator(words, setup.pick(512, 32)))

    def make() -> Inputs:
        return setup.whole(words, setup.batch, length), setup.whole(words, setup.batch, length)

    def loss_of(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(model(source, target).flatten(0, 1), target.flatten(), label_smoothing=0.1)

    return train(setup, model, make, loss_of, "adam", max_norm=5.0)


def gemma(setup: Setup) -> Step:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    width, layers = setup.pick((640, 12), (64, 2))
    config = Gemma3TextConfig(
        vocab_size=setup.pick(64000, 100), hidden_size=width, intermediate_size=setup.pick(2048, 128), num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=1, head_dim=setup.pick(256, 16), sliding_window=setup.pick(256, 8), use_cache=False,
    )  # fmt: skip
    model = setup.place(Gemma3ForCausalLM(config))
    length = setup.pick(1024, 16)

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return model(input_ids=tokens, labels=tokens).loss

    tokens = lambda: (setup.whole(config.vocab_size, setup.batch, length),)  # noqa: E731
    return train(setup, model, tokens, loss_of, "adamw_fused", max_norm=1.0, accumulate=2)


class Scanning(nn.Module):
    """A layer of Mamba in plain PyTorch: a depthwise convolution, and a state that changes with each token."""

    def __init__(self, width: int, state: int) -> None:
        super().__init__()
        self.norm, inner = nn.RMSNorm(width), 2 * width
        self.enter, self.leave = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.mix = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.choose, self.pace = nn.Linear(inner, 2 * state, bias=False), nn.Linear(inner, inner)
        self.decay, self.direct = nn.Parameter(torch.zeros(inner, state)), nn.Parameter(torch.ones(inner))

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.enter(self.norm(x)).chunk(2, -1)
        y = functional.silu(self.mix(y.transpose(1, 2))[..., : x.size(1)].transpose(1, 2))
        into, out = self.choose(y).chunk(2, -1)
        pace = functional.softplus(self.pace(y))
        kept = torch.exp(pace[..., None] * -self.decay.exp())
        added = (pace * y)[..., None] * into[:, :, None]
        state, found = torch.zeros_like(added[:, 0]), []
        for i in range(x.size(1)):
            state = kept[:, i] * state + added[:, i]
            found.append((state * out[:, i, None]).sum(-1))
        return x + self.leave((torch.stack(found, 1) + y * self.direct) * functional.silu(gate))


def mamba(setup: Setup) -> Step:
    width, layers, length, words = setup.pick((384, 4, 128, 32000), (32, 2, 8, 100))
    parts = nn.Sequential(
        nn.Embedding(words, width), *(Scanning(width, 16) for _ in range(layers)), nn.Linear(width, words)
    )
    model = setup.place(parts)

    def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
        return functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    return train(setup, model, lambda: (setup.whole(words, setup.batch, length),), loss_of, "adamw_foreach")

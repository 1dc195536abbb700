"""Programs of the half `blind` that train on sequences, texts, graphs and rays. They were written before the last rules were changed, and measured after."""

from __future__ import annotations

import torch
from language import causal
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


class Causal(nn.Module):
    """A block of a temporal convolutional network: two dilated convolutions that see only the past."""

    def __init__(self, before: int, after: int, dilation: int) -> None:
        super().__init__()
        self.past = 2 * dilation
        self.first = nn.Conv1d(before, after, 3, dilation=dilation)
        self.second = nn.Conv1d(after, after, 3, dilation=dilation)
        self.direct = nn.Conv1d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = functional.dropout(self.first(functional.pad(x, (self.past, 0))).relu(), 0.1)
        y = functional.dropout(self.second(functional.pad(y, (self.past, 0))).relu(), 0.1)
        return (y + self.direct(x)).relu()


def tcn(setup: Setup) -> Step:
    width, length, series = setup.pick((96, 4000, 12), (8, 64, 2))
    blocks = (Causal(width if i else series, width, 1 << i) for i in range(setup.pick(8, 2)))
    model = setup.place(nn.Sequential(*blocks, nn.Conv1d(width, series, 1)))

    def loss_of(model: nn.Module, values: Tensor) -> Tensor:
        return functional.mse_loss(model(values[..., :-1]), values[..., 1:])

    return train(setup, model, lambda: (setup.real(setup.batch, series, length + 1),), loss_of, "adam", max_norm=0.5)


class Separable(nn.Module):
    """A block of QuartzNet: a depthwise convolution over the time, and a pointwise one."""

    def __init__(self, before: int, after: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(before, before, kernel, stride, kernel // 2, groups=before, bias=False),
            nn.Conv1d(before, after, 1, bias=False),
            nn.BatchNorm1d(after),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


def quartznet(setup: Setup) -> Step:
    """Speech to letters, with a CTC loss."""
    frames, width = setup.pick((1200, 256), (64, 16))
    layers = [Separable(64, width, 33, 2), *(Separable(width, width, kernel) for kernel in (33, 33, 39, 39, 51, 51))]
    model = setup.place(nn.Sequential(*layers, Separable(width, 2 * width, 75), nn.Conv1d(2 * width, 29, 1)))

    def make() -> Inputs:
        return setup.real(setup.batch, 64, frames), setup.whole(28, setup.batch, setup.pick(100, 5)) + 1

    def loss_of(model: nn.Module, sound: Tensor, letters: Tensor) -> Tensor:
        scores = model(sound).float().log_softmax(1).permute(2, 0, 1)
        lengths = torch.full((setup.batch,), len(scores)), torch.full((setup.batch,), letters.size(1))
        return functional.ctc_loss(scores, letters, *lengths, zero_infinity=True)

    return train(setup, model, make, loss_of, "adam_foreach")


def neox(setup: Setup) -> Step:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    width, layers = setup.pick((768, 8), (64, 2))
    config = GPTNeoXConfig(
        vocab_size=setup.pick(32000, 100), hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers, num_attention_heads=8,
        max_position_embeddings=1024, use_cache=False,
    )  # fmt: skip
    model = setup.place(GPTNeoXForCausalLM(config))
    return causal(setup, model, "adamw_foreach", config.vocab_size, setup.pick(768, 16))


class Memory(nn.Module):
    """An LSTM of two directions over embeddings, a conditional head for each token, and a convolution over its letters."""

    def __init__(self, words: int, letters: int, width: int) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(words, width), nn.Embedding(letters, 32)
        self.spelling = nn.Conv1d(32, 64, 3, padding=1)
        self.reader = nn.LSTM(width + 64, width, 2, batch_first=True, bidirectional=True, dropout=0.3)
        self.head = nn.Linear(2 * width, 17)

    def forward(self, words: Tensor, letters: Tensor) -> Tensor:
        spelled = self.spelling(self.letters(letters.flatten(0, 1)).transpose(1, 2)).amax(2).unflatten(0, words.shape)
        embedded = self.words(words)
        return self.head(self.reader(torch.cat([embedded, spelled.to(embedded.dtype)], 2))[0])


def tagger(setup: Setup) -> Step:
    words, length = setup.pick((30000, 120), (100, 8))
    model = setup.place(Memory(words, 100, setup.pick(256, 16)))

    def make() -> Inputs:
        tokens = setup.whole(words, setup.batch, length), setup.whole(100, setup.batch, length, 12)
        return *tokens, setup.whole(17, setup.batch, length)

    def loss_of(model: nn.Module, words: Tensor, letters: Tensor, tags: Tensor) -> Tensor:
        return functional.cross_entropy(model(words, letters).flatten(0, 1), tags.flatten())

    return train(setup, model, make, loss_of, "adam", max_norm=5.0)


class Messages(nn.Module):
    """A layer of a graph network that sends messages along edges and adds them up, without a library for graphs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width + 8, width), nn.ReLU())
        self.update = nn.GRUCell(width, width)

    def forward(self, x: Tensor, source: Tensor, target: Tensor, bonds: Tensor) -> Tensor:
        sent = self.message(torch.cat([x[source], x[target], bonds.to(x.dtype)], 1))
        return self.update(torch.zeros_like(x).index_add(0, target, sent.to(x.dtype)), x)


class Molecules(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.atoms, self.layers = nn.Embedding(120, width), nn.ModuleList(Messages(width) for _ in range(layers))
        self.head = nn.Linear(width, 12)

    def forward(self, atoms: Tensor, source: Tensor, target: Tensor, bonds: Tensor, graphs: int) -> Tensor:
        x = self.atoms(atoms)
        for layer in self.layers:
            x = layer(x, source, target, bonds).to(x.dtype)
        return self.head(x.view(graphs, -1, x.size(1)).mean(1))


def molecules(setup: Setup) -> Step:
    atoms, bonds = 30, 64
    model = setup.place(Molecules(setup.pick(128, 16), 4))

    def make() -> Inputs:
        nodes, edges = atoms * setup.batch, bonds * setup.batch
        return (setup.whole(120, nodes), setup.whole(nodes, edges), setup.whole(nodes, edges), setup.real(edges, 8),
                setup.real(setup.batch, 12))  # fmt: skip

    def loss_of(
        model: nn.Module, kinds: Tensor, source: Tensor, target: Tensor, bonds: Tensor, wanted: Tensor
    ) -> Tensor:
        return functional.mse_loss(model(kinds, source, target, bonds, setup.batch), wanted)

    return train(setup, model, make, loss_of, "adam_foreach")


class Field(nn.Module):
    """NeRF: a perceptron over waves of points and directions."""

    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.register_buffer("waves", 2.0 ** torch.arange(waves), persistent=False)
        inputs = 6 * waves
        self.first = nn.Sequential(
            *(part for i in range(4) for part in (nn.Linear(width if i else inputs, width), nn.ReLU()))
        )
        self.second = nn.Sequential(
            *(part for i in range(3) for part in (nn.Linear(width if i else width + inputs, width), nn.ReLU()))
        )
        self.density, self.color = (
            nn.Linear(width, 1),
            nn.Sequential(nn.Linear(width + 3, width // 2), nn.ReLU(), nn.Linear(width // 2, 3)),
        )

    def forward(self, points: Tensor, ways: Tensor) -> Tensor:
        angles = (points[..., None] * self.waves).flatten(-2)
        waves = torch.cat([angles.sin(), angles.cos()], -1)
        x = self.second(torch.cat([self.first(waves), waves], -1))
        density = functional.softplus(self.density(x)).squeeze(-1)
        color = self.color(torch.cat([x, ways[:, None].expand(-1, x.size(1), -1).to(x.dtype)], -1)).sigmoid()
        light = torch.exp(-torch.cumsum(density, 1))
        return (((1 - torch.exp(-density)) * light)[..., None] * color).sum(1)


def nerf(setup: Setup) -> Step:
    samples = setup.pick(96, 8)
    model = setup.place(Field(setup.pick(256, 16), 10))

    def make() -> Inputs:
        rays = 64 * setup.batch
        return setup.real(rays, samples, 3), setup.real(rays, 3), setup.real(rays, 3)

    return train(setup, model, make, lambda m, p, w, c: functional.mse_loss(m(p, w), c), "adam")

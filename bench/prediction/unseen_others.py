"""Programs of the half `unseen` that train on tables, graphs and latent codes. They were written and committed before any of them
ran on a GPU."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from training import Inputs, Setup, Step, train


class Crossed(nn.Module):
    """A block of a diffusion transformer with attention to a text."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, elementwise_affine=False) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.query, self.keys, self.crossed = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.table = nn.Parameter(torch.randn(6, width) / width**0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        split = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, text: Tensor, condition: Tensor) -> Tensor:
        moved, scaled, gate, moved2, scaled2, gate2 = (self.table + condition).chunk(6, 1)
        x = x + gate * self.out(self.attend(*self.qkv(self.norms[0](x) * (1 + scaled) + moved).chunk(3, -1)))
        x = x + self.crossed(self.attend(self.query(x), *self.keys(text).chunk(2, -1)))
        return x + gate2 * self.mlp(self.norms[1](x) * (1 + scaled2) + moved2)


class Painter(nn.Module):
    def __init__(self, width: int, layers: int, heads: int, text_width: int) -> None:
        super().__init__()
        self.embed, self.text = (
            nn.Conv2d(4, width, 2, 2),
            nn.Sequential(nn.Linear(text_width, width), nn.GELU(), nn.Linear(width, width)),
        )
        self.times = nn.Sequential(nn.Linear(256, width), nn.SiLU(), nn.Linear(width, width))
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.layers, self.head = nn.ModuleList(Crossed(width, heads) for _ in range(layers)), nn.Linear(width, 16)

    def forward(self, noisy: Tensor, times: Tensor, text: Tensor) -> Tensor:
        x, text = self.embed(noisy).flatten(2).transpose(1, 2), self.text(text)
        condition = self.condition(self.times(times)).unflatten(1, (6, -1))
        for layer in self.layers:
            x = layer(x, text, condition)
        side = noisy.size(2) // 2
        return self.head(x).view(len(x), side, side, 4, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(noisy.shape)


def painter(setup: Setup) -> Step:
    """A diffusion transformer with cross attention; the text comes from a frozen encoder."""
    width, layers, heads, text_width = setup.pick((768, 10, 12, 512), (32, 2, 4, 16))
    size, tokens = setup.pick((48, 120), (8, 6))
    layer = nn.TransformerEncoderLayer(text_width, setup.pick(8, 4), 4 * text_width, batch_first=True, norm_first=True)
    reader = nn.Sequential(
        nn.Embedding(32000, text_width), nn.TransformerEncoder(layer, setup.pick(6, 1), enable_nested_tensor=False)
    )
    reader = setup.place(reader).eval().requires_grad_(False)
    model = setup.place(Painter(width, layers, heads, text_width))
    shares = torch.linspace(0.999, 0.01, 1000, device=setup.device)

    def make() -> Inputs:
        return (
            setup.real(setup.batch, 4, size, size),
            setup.whole(32000, setup.batch, tokens),
            setup.whole(1000, setup.batch),
        )

    def loss_of(model: nn.Module, images: Tensor, words: Tensor, times: Tensor) -> Tensor:
        with torch.no_grad():
            text = reader(words)
        noise, share = torch.randn_like(images), shares[times][:, None, None, None]
        angles = times[:, None] * torch.exp(-torch.arange(128, device=images.device) / 14)
        waves = torch.cat([angles.sin(), angles.cos()], 1)
        return functional.mse_loss(model(share.sqrt() * images + (1 - share).sqrt() * noise, waves, text), noise)

    return train(setup, model, make, loss_of, "adamw_loop", max_norm=0.5)


class Codes(nn.Module):
    """VQ-VAE: the nearest of many vectors for each place; the vectors follow what they stand for, without gradients."""

    def __init__(self, width: int, codes: int) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(2 * width, 2 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(2 * width, 64, 1),
        )  # fmt: skip
        self.up = nn.Sequential(
            nn.Conv2d(64, 2 * width, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, 2, 1),
        )  # fmt: skip
        self.register_buffer("codes", torch.randn(codes, 64))
        self.register_buffer("counts", torch.ones(codes))
        self.register_buffer("sums", torch.randn(codes, 64))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        found = self.down(images).permute(0, 2, 3, 1)
        flat = found.detach().flatten(0, 2).to(self.codes.dtype)
        chosen = torch.cdist(flat, self.codes).argmin(1)
        with torch.no_grad():
            ones = functional.one_hot(chosen, len(self.codes)).to(flat.dtype)
            self.counts.mul_(0.99).add_(ones.sum(0), alpha=0.01)
            self.sums.mul_(0.99).add_(ones.T @ flat, alpha=0.01)
            self.codes.copy_(self.sums / (self.counts + 1e-5)[:, None])
        near = functional.embedding(chosen, self.codes).view(found.shape)
        passed = found + (near - found).detach()
        return self.up(passed.permute(0, 3, 1, 2)), functional.mse_loss(found.float(), near)


def vqvae(setup: Setup) -> Step:
    size = setup.pick(128, 16)
    model = setup.place(Codes(setup.pick(128, 8), setup.pick(1024, 16)))

    def loss_of(model: nn.Module, images: Tensor) -> Tensor:
        made, apart = model(images)
        return functional.mse_loss(made, images) + 0.25 * apart

    return train(setup, model, lambda: (setup.real(setup.batch, 3, size, size),), loss_of, "adam_foreach")


class Neighbours(nn.Module):
    """Attention along the edges of a graph: a softmax for each node over the edges that end there."""

    def __init__(self, before: int, after: int, heads: int) -> None:
        super().__init__()
        self.heads, self.project = heads, nn.Linear(before, after, bias=False)
        self.source = nn.Parameter(torch.randn(heads, after // heads))
        self.target = nn.Parameter(torch.randn(heads, after // heads))
        self.direct = nn.Linear(before, after)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        z = self.project(x).unflatten(1, (self.heads, -1))
        scores = functional.leaky_relu((z * self.source).sum(-1)[source] + (z * self.target).sum(-1)[target], 0.2)
        highest = scores.new_full((len(x), self.heads), -1e4)
        highest = highest.scatter_reduce(0, target[:, None].expand_as(scores), scores.detach(), "amax")
        weights = (scores - highest[target]).exp()
        total = torch.zeros_like(highest).index_add(0, target, weights)
        weights = functional.dropout(weights / (total[target] + 1e-9), 0.2)
        sent = z[source] * weights[..., None].to(z.dtype)
        return torch.zeros_like(z).index_add(0, target, sent.to(z.dtype)).flatten(1) + self.direct(x)


class Edges(nn.Module):
    def __init__(self, inputs: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        sizes = pairwise((inputs, width, width, width))
        self.layers = nn.ModuleList(Neighbours(before, after, heads) for before, after in sizes)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        for layer in self.layers:
            x = functional.elu(layer(x, source, target))
        return self.head(x)


def edges(setup: Setup) -> Step:
    nodes = 1000 * setup.batch if not setup.tiny else 20 * setup.batch
    model = setup.place(Edges(128, setup.pick(256, 16), 4, 40))

    def make() -> Inputs:
        found = setup.whole(nodes, 2, 12 * nodes)
        return setup.real(nodes, 128), found[0], found[1], setup.whole(40, nodes)

    def loss_of(model: nn.Module, x: Tensor, source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
        return functional.nll_loss(model(x, source, target).log_softmax(1), labels)

    return train(setup, model, make, loss_of, "adam")


class Columns(nn.Module):
    """TabTransformer: a token for each column of a table, mixed by attention."""

    def __init__(self, columns: int, values: int, numbers: int, width: int, layers: int) -> None:
        super().__init__()
        self.register_buffer("offsets", values * torch.arange(columns), persistent=False)
        self.values = nn.Embedding(columns * values, width)
        self.scale, self.shift = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.zeros(numbers, width))
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.mixed = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, kinds: Tensor, numbers: Tensor) -> Tensor:
        tokens = (
            self.first.expand(len(kinds), -1, -1),
            self.values(kinds + self.offsets),
            numbers[..., None] * self.scale + self.shift,
        )
        return self.head(self.mixed(torch.cat(tokens, 1))[:, 0])


def tabular(setup: Setup) -> Step:
    columns, values, numbers = setup.pick((26, 1000, 13), (4, 10, 3))
    model = setup.place(Columns(columns, values, numbers, setup.pick(192, 16), setup.pick(4, 1)))

    def make() -> Inputs:
        return setup.whole(values, setup.batch, columns), setup.real(setup.batch, numbers), setup.whole(2, setup.batch)

    return train(setup, model, make, lambda m, k, n, y: functional.cross_entropy(m(k, n), y), "adamw")


def mae(setup: Setup) -> Step:
    """A masked autoencoder: an encoder that sees a quarter of an image, and a decoder that sees places for all of it."""
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    width, layers, size = setup.pick((768, 12, 224), (32, 2, 32))
    config = ViTMAEConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=setup.pick(12, 4), intermediate_size=4 * width, image_size=size,
        patch_size=16, decoder_hidden_size=setup.pick(512, 32), decoder_num_hidden_layers=setup.pick(8, 1), decoder_num_attention_heads=setup.pick(16, 4),
        decoder_intermediate_size=setup.pick(2048, 64),
    )  # fmt: skip
    model = setup.place(ViTMAEForPreTraining(config))
    images = lambda: (setup.real(setup.batch, 3, size, size),)  # noqa: E731
    return train(setup, model, images, lambda m, x: m(pixel_values=x).loss, "adamw_fused", accumulate=2)


class Flow(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, width) for _ in range(2))
        self.convolutions = nn.ModuleList(nn.Conv2d(width + 1, width, 3, 1, 1) for _ in range(2))

    def forward(self, x: Tensor, time: float) -> Tensor:
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            x = functional.softplus(norm(x))
            x = convolution(torch.cat([x, torch.full_like(x[:, :1], time)], 1))
        return x


class Ode(nn.Module):
    """A neural ODE for images: the same network at each point of time, by the classical method of Runge and Kutta."""

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.count = steps
        self.start, self.flow = (
            nn.Sequential(nn.Conv2d(3, width, 3, 1), nn.ReLU(), nn.Conv2d(width, width, 4, 2, 1)),
            Flow(width),
        )
        self.head = nn.Sequential(
            nn.GroupNorm(8, width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        x, size = self.start(x), 1 / self.count
        for i in range(self.count):
            time = i * size
            one = self.flow(x, time)
            two = self.flow(x + size / 2 * one, time + size / 2)
            three = self.flow(x + size / 2 * two, time + size / 2)
            four = self.flow(x + size * three, time + size)
            x = x + size / 6 * (one + 2 * two + 2 * three + four)
        return self.head(x)


def ode(setup: Setup) -> Step:
    size = setup.pick(64, 16)
    model = setup.place(Ode(setup.pick(64, 8), setup.pick(6, 2)))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(10, setup.batch)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "sgd_loop")


class Perceiver(nn.Module):
    """A few vectors that read a long input again and again, with the same weights."""

    def __init__(self, inputs: int, width: int, latents: int, depth: int) -> None:
        super().__init__()
        self.latents, self.depth = nn.Parameter(0.02 * torch.randn(latents, width)), depth
        self.enter, self.norm = nn.Linear(inputs, width), nn.LayerNorm(width)
        self.read = nn.MultiheadAttention(width, 1, batch_first=True)
        layer = nn.TransformerEncoderLayer(width, 8, 2 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.think, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, 1000)

    def forward(self, places: Tensor) -> Tensor:
        seen = self.enter(places)
        x = self.latents.expand(len(places), -1, -1)
        for _ in range(self.depth):
            x = x + self.read(self.norm(x), seen, seen, need_weights=False)[0]
            x = self.think(x)
        return self.head(x.mean(1))


def perceiver(setup: Setup) -> Step:
    count, inputs = setup.pick((12544, 131), (64, 11))
    model = setup.place(Perceiver(inputs, setup.pick(512, 16), setup.pick(256, 8), setup.pick(4, 2)))

    def make() -> Inputs:
        return setup.real(setup.batch, count, inputs), setup.whole(1000, setup.batch)

    return train(setup, model, make, lambda m, x, y: functional.cross_entropy(m(x), y), "adam_fused")

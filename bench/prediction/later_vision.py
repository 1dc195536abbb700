"""Programs of the half `later` that train on images and clips. They were committed before any of them was predicted or ran on a GPU."""

# size: one file holds what trains on images and clips

from __future__ import annotations

import copy
import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from training import Inputs, Setup, Step, train


class Standardized(nn.Conv2d):
    """A convolution whose weights have mean 0 and variance 1 in each output channel."""

    def forward(self, x: Tensor) -> Tensor:
        spread, mean = torch.var_mean(self.weight, (1, 2, 3), keepdim=True, unbiased=False)
        weight = (self.weight - mean) * (spread + 1e-5).rsqrt()
        return functional.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Bottleneck(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        inner = after // 4
        self.norms = nn.ModuleList(nn.GroupNorm(16, width) for width in (before, inner, inner))
        self.first, self.last = Standardized(before, inner, 1, bias=False), Standardized(inner, after, 1)
        self.middle = Standardized(inner, inner, 3, stride, 1, bias=False)
        self.skip = None
        if stride > 1 or before != after:
            self.skip = nn.Sequential(nn.AvgPool2d(stride, ceil_mode=True), Standardized(before, after, 1))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.mish(self.norms[0](x))
        skip = x if self.skip is None else self.skip(y)
        y = self.middle(functional.mish(self.norms[1](self.first(y))))
        return skip + 0.2 * self.last(functional.mish(self.norms[2](y)))


def standardized(setup: Setup) -> Step:
    """A residual network that normalizes weights and groups of channels, with mixed images and smoothed labels."""
    widths, depths = setup.pick(((256, 512, 1024, 2048), (3, 4, 5, 2)), ((64, 64), (1, 1)))
    parts: list[nn.Module] = [Standardized(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    for i, (before, after) in enumerate(pairwise((64, *widths))):
        parts += [Bottleneck(after if j else before, after, 2 if i and not j else 1) for j in range(depths[i])]
    head = (nn.GroupNorm(16, widths[-1]), nn.Mish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2))
    model = setup.place(nn.Sequential(*parts, *head, nn.Linear(widths[-1], 365)))
    model = model.to(memory_format=torch.channels_last)
    size = setup.pick(200, 40)

    def make() -> Inputs:
        images = setup.real(setup.batch, 3, size, size).contiguous(memory_format=torch.channels_last)
        return images, setup.whole(365, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        share, order = 0.7, torch.randperm(len(images), device=images.device)
        scores = model(share * images + (1 - share) * images[order])
        loss = share * functional.cross_entropy(scores, labels, label_smoothing=0.1)
        return loss + (1 - share) * functional.cross_entropy(scores, labels[order], label_smoothing=0.1)

    sgd = lambda weights: torch.optim.SGD(weights, 0.01, 0.9, weight_decay=5e-5, nesterov=True)  # noqa: E731
    return train(setup, model, make, loss_of, sgd)


class Registered(nn.Module):
    """A layer of a vision transformer: attention in plain PyTorch with normed queries and keys, and a gated perceptron."""

    def __init__(self, width: int, heads: int, inner: int, dropped: float) -> None:
        super().__init__()
        self.heads, self.dropped = heads, dropped
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.sides = nn.ModuleList(nn.RMSNorm(width // heads) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.scales = nn.ParameterList(nn.Parameter(0.1 * torch.ones(width)) for _ in range(2))

    def kept(self, x: Tensor) -> Tensor:
        """Drops the branch of some images."""
        mask = x.new_empty(len(x), 1, 1).bernoulli_(1 - self.dropped)
        return x * mask / (1 - self.dropped)

    def attend(self, x: Tensor) -> Tensor:
        batch, count, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.sides[0](q), self.sides[1](k)
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        mixed = scores.softmax(-1).to(v.dtype) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, count, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.kept(self.scales[0] * self.attend(self.norms[0](x)))
        value, gate = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.kept(self.scales[1] * self.down(value * functional.silu(gate)))


class Registers(nn.Module):
    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2, width))
        self.extra = nn.Parameter(0.02 * torch.randn(1, 5, width))
        self.layers = nn.ModuleList(Registered(width, heads, 8 * width // 3, 0.1 * i / layers) for i in range(layers))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(2 * width, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images).flatten(2).transpose(1, 2) + self.places
        x = torch.cat([self.extra.expand(len(x), -1, -1).to(x.dtype), x], 1)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(torch.cat([x[:, 0], x[:, 5:].mean(1)], 1))


def registers(setup: Setup) -> Step:
    """A vision transformer with heads of 80, four registers, and an average of its weights."""
    size, width, heads, layers = setup.pick((210, 480, 6, 10), (42, 24, 2, 2))
    model = setup.place(Registers(size, 14, width, heads, layers))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))

    def make() -> Inputs:
        return setup.real(setup.batch, 3, size, size), setup.whole(1000, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        wanted = functional.one_hot(labels, 1000) * 0.9 + 1e-4
        return functional.binary_cross_entropy_with_logits(model(images).float(), wanted, reduction="sum") / len(labels)

    nadam = lambda weights: torch.optim.NAdam(weights, 1e-3, weight_decay=0.05, decoupled_weight_decay=True)  # noqa: E731
    step = train(setup, model, make, loss_of, nadam, max_norm=1.0)

    def averaged() -> Tensor:
        loss = step()
        average.update_parameters(model)
        return loss

    return averaged


def twice(before: int, after: int, dilation: int = 1) -> nn.Module:
    return nn.Sequential(*(part for first in (before, after) for part in (
        nn.Conv2d(first, after, 3, padding=dilation, dilation=dilation), nn.InstanceNorm2d(after, affine=True), nn.PReLU(after))))  # fmt: skip


class Gate(nn.Module):
    """Weighs the pixels of a skip connection by what the coarser level has found."""

    def __init__(self, skip: int, coarse: int, inner: int) -> None:
        super().__init__()
        self.skip, self.coarse, self.out = (
            nn.Conv2d(skip, inner, 1),
            nn.Conv2d(coarse, inner, 1),
            nn.Conv2d(inner, 1, 1),
        )

    def forward(self, skip: Tensor, coarse: Tensor) -> Tensor:
        return skip * self.out((self.skip(skip) + self.coarse(coarse)).relu()).sigmoid()


class Gated(nn.Module):
    def __init__(self, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        pairs = [*pairwise(widths)]
        self.down = nn.ModuleList([twice(2, widths[0]), *(twice(before, after) for before, after in pairs)])
        self.middle = nn.Sequential(twice(widths[-1], widths[-1], 2), twice(widths[-1], widths[-1], 4))
        self.gates = nn.ModuleList(Gate(low, high, low // 2) for low, high in pairs[::-1])
        self.up = nn.ModuleList(twice(low + high, low) for low, high in pairs[::-1])
        self.heads = nn.ModuleList(nn.Conv2d(low, classes, 1) for low, _ in pairs[::-1])

    def forward(self, x: Tensor) -> list[Tensor]:
        kept = []
        for i, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        x, found = self.middle(kept.pop()), []
        for gate, up, head in zip(self.gates, self.up, self.heads, strict=True):
            skip = kept.pop()
            x = functional.interpolate(x, skip.shape[-2:], mode="bilinear", align_corners=True)
            x = up(torch.cat([gate(skip, x), x], 1))
            found.append(head(x))
        return found


def gates(setup: Setup) -> Step:
    """An attention U-Net for masks of organs: odd sizes, Dice's coefficient at three levels, and values of gradients clipped."""
    size, classes = setup.pick(250, 44), 5
    model = setup.place(Gated(setup.pick((40, 80, 160, 320), (4, 8, 8)), classes))
    steps = torch.optim.RMSprop(model.parameters(), 1e-4, alpha=0.95, momentum=0.9, centered=True)

    def step() -> Tensor:
        total = torch.zeros((), device=setup.device)
        for _ in range(2):
            images = setup.real(setup.batch, 2, size, size)
            masks = torch.rand(setup.batch, classes, size, size, device=setup.device).gt(0.8).float()
            with setup.autocast():
                found = model(images)
            loss = torch.zeros((), device=setup.device)
            for scores in found:
                large = functional.interpolate(scores.float(), (size, size), mode="bilinear", align_corners=False)
                chance = large.sigmoid()
                dice = (2 * (chance * masks).sum((2, 3)) + 1) / (chance.sum((2, 3)) + masks.sum((2, 3)) + 1)
                loss = loss + functional.binary_cross_entropy_with_logits(large, masks) + 1 - dice.mean()
            (loss / 2).backward()
            total += loss.detach() / 2
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        steps.step()
        steps.zero_grad()
        return total

    return step


class Inverted(nn.Module):
    """A wide depthwise convolution between narrow ones, with a weight for each channel."""

    def __init__(self, before: int, after: int, stride: int, kernel: int) -> None:
        super().__init__()
        wide = 4 * before
        self.enter = nn.Sequential(nn.Conv2d(before, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        depthwise = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        self.middle = nn.Sequential(depthwise, nn.BatchNorm2d(wide), nn.Hardswish())
        self.weigh = nn.Sequential(nn.Linear(wide, before), nn.ReLU(), nn.Linear(before, wide), nn.Hardsigmoid())
        self.leave, self.same = (
            nn.Sequential(nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after)),
            before == after and stride == 1,
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.middle(self.enter(x))
        y = self.leave(y * self.weigh(y.mean((2, 3)))[:, :, None, None])
        return x + y if self.same else y


class Centers(nn.Module):
    """CenterNet: objects are peaks of a map at a quarter of the resolution."""

    def __init__(self, widths: tuple[int, ...], neck: int, classes: int) -> None:
        super().__init__()
        self.start = nn.Sequential(nn.Conv2d(3, widths[0], 3, 2, 1), nn.BatchNorm2d(widths[0]), nn.Hardswish())
        self.levels = nn.ModuleList(
            nn.Sequential(Inverted(before, after, 2, 5), Inverted(after, after, 1, 3), Inverted(after, after, 1, 5))
            for before, after in pairwise(widths)
        )
        self.side = nn.ModuleList(nn.Conv2d(width, neck, 1) for width in widths[:0:-1])
        self.up = nn.ModuleList(
            nn.Sequential(nn.ConvTranspose2d(neck, neck, 4, 2, 1), nn.GroupNorm(8, neck), nn.SiLU()) for _ in widths[2:]
        )
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(neck, neck, 3, padding=1), nn.ReLU(), nn.Conv2d(neck, out, 1))
            for out in (classes, 4)
        )
        nn.init.constant_(self.heads[0][2].bias, -2.19)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x, kept = self.start(images), []
        for level in self.levels:
            x = level(x)
            kept.append(x)
        x = self.side[0](kept.pop())
        for up, side in zip(self.up, self.side[1:], strict=True):
            x = up(x) + side(kept.pop())
        return self.heads[0](x), self.heads[1](x)


def peaks_of(rows: int, columns: int, places: Tensor, kinds: Tensor, sides: Tensor, classes: int) -> Tensor:
    """Returns maps of classes with a bell around each object."""
    y = torch.arange(rows, device=places.device)[:, None] - (places // columns)[..., None, None]
    x = torch.arange(columns, device=places.device) - (places % columns)[..., None, None]
    radius = sides.mean(2)[..., None, None] / 3 + 0.5
    bells = torch.exp(-(x.square() + y.square()) / (2 * radius.square())).flatten(2)
    maps = bells.new_zeros(len(places), classes, rows * columns)
    return maps.scatter_reduce(1, kinds[..., None].expand_as(bells), bells, "amax")


def centers(setup: Setup) -> Step:
    height, width, classes, objects = setup.pick((352, 416, 37, 24), (64, 96, 5, 3))
    rows, columns = height // 4, width // 4
    model = setup.place(Centers(setup.pick((32, 48, 72, 120, 208), (8, 8, 16, 16, 16)), setup.pick(96, 16), classes))

    def make() -> Inputs:
        places, kinds = setup.whole(rows * columns, setup.batch, objects), setup.whole(classes, setup.batch, objects)
        boxes = torch.rand(setup.batch, objects, 4, device=setup.device)
        maps = peaks_of(rows, columns, places, kinds, 20 * boxes[..., 2:], classes)
        return setup.real(setup.batch, 3, height, width), maps, places, boxes

    def loss_of(model: nn.Module, images: Tensor, maps: Tensor, places: Tensor, boxes: Tensor) -> Tensor:
        scores, sides = model(images)
        chance = scores.flatten(2).float().sigmoid().clamp(1e-4, 1 - 1e-4)
        is_peak = maps.ge(0.999).float()
        found = (chance.log() * (1 - chance).square() * is_peak).sum()
        missed = ((1 - chance).log() * chance.square() * (1 - maps).pow(4) * (1 - is_peak)).sum()
        near = sides.flatten(2).transpose(1, 2).gather(1, places[..., None].expand(-1, -1, 4))
        with torch.no_grad():  # peaks that are highest among their neighbours, for a running figure
            whole = chance.unflatten(2, (rows, columns))
            best, _ = (whole * (functional.max_pool2d(whole, 3, 1, 1) == whole)).flatten(1).topk(objects)
        loss = -(found + missed) / is_peak.sum().clamp(min=1)
        return loss + 0.1 * functional.l1_loss(near.float(), boxes) + 0 * best.mean()

    adam = lambda weights: torch.optim.Adam(weights, 1.25e-4, amsgrad=True)  # noqa: E731
    return train(setup, model, make, loss_of, adam, max_norm=35.0)


class Factored(nn.Module):
    """A convolution over space, then one over time."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        inner = 3 * before * after * 9 // (9 * before + 3 * after) // 8 * 8
        space = nn.Conv3d(before, inner, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        time = nn.Conv3d(inner, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False)
        self.body = nn.Sequential(space, nn.BatchNorm3d(inner), nn.ReLU(inplace=True), time, nn.BatchNorm3d(after))
        self.skip = nn.Conv3d(before, after, 1, stride, bias=False) if stride > 1 or before != after else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.skip(x))


class Lars(torch.optim.Optimizer):
    """SGD with momentum, whose rate is scaled for each tensor by the norms of the weights and the gradients."""

    def __init__(
        self, weights: list[nn.Parameter], lr: float, momentum: float = 0.9, weight_decay: float = 1e-6
    ) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            for weight in group["params"]:
                change = weight.grad
                if weight.ndim > 1:
                    change = change.add(weight, alpha=group["weight_decay"])
                    size, slope = weight.norm(), change.norm()
                    ratio = torch.where((size > 0) & (slope > 0), 0.001 * size / slope, torch.ones_like(size))
                    change = change.mul(ratio)
                state = self.state[weight]
                if "speed" not in state:
                    state["speed"] = torch.zeros_like(weight)
                state["speed"].mul_(group["momentum"]).add_(change)
                weight.add_(state["speed"], alpha=-group["lr"])


def clips(setup: Setup) -> Step:
    """Two clips of each video are to be alike, and unlike those of others."""
    frames, size, widths = setup.pick((12, 104, (40, 64, 128, 256)), (4, 24, (8, 16)))
    start = nn.Conv3d(3, widths[0], (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False)
    body = [
        Factored(before, after, 1 + i % 2)
        for i, (before, after) in enumerate(pairwise(w for w in widths for _ in range(2)))
    ]
    head = (
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(widths[-1], 512), nn.BatchNorm1d(512), nn.ReLU(inplace=True), nn.Linear(512, 128),
    )  # fmt: skip
    model = setup.place(nn.Sequential(start, nn.BatchNorm3d(widths[0]), nn.ReLU(inplace=True), *body, *head))
    model.register_parameter("heat", nn.Parameter(torch.tensor(math.log(10.0), device=setup.device)))

    def make() -> Inputs:
        shape = (setup.batch, 3, frames, size, size)
        return setup.real(*shape), setup.real(*shape).flip(-1)

    def loss_of(model: nn.Module, one: Tensor, other: Tensor) -> Tensor:
        left, right = functional.normalize(model(torch.cat([one, other]).roll(3, 2)).float(), dim=1).chunk(2)
        scores, own = left @ right.T * model.heat.exp().clamp(max=100), torch.arange(len(one), device=one.device)
        return (functional.cross_entropy(scores, own) + functional.cross_entropy(scores.T, own)) / 2

    return train(setup, model, make, loss_of, lambda weights: Lars(weights, 0.3), accumulate=2)


class Filmed(nn.Module):
    """A residual block that a condition scales and shifts, and attention to a text where it is coarse."""

    def __init__(self, before: int, after: int, condition: int, text: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(8, before), nn.GroupNorm(8, after, affine=False)])
        self.first, self.second = nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)
        self.film, self.skip = nn.Linear(condition, 2 * after), nn.Conv2d(before, after, 1, bias=False)
        self.attention = None
        if heads:
            self.between, self.text = nn.GroupNorm(8, after), nn.Linear(text, after)
            self.attention = nn.MultiheadAttention(after, heads, dropout=0.05, batch_first=True)

    def forward(self, x: Tensor, condition: Tensor, text: Tensor, padding: Tensor) -> Tensor:
        scale, shift = self.film(condition)[:, :, None, None].chunk(2, 1)
        y = self.norms[1](self.first(functional.silu(self.norms[0](x)))) * (1 + scale) + shift
        x = self.skip(x) + self.second(functional.dropout(functional.silu(y), 0.1))
        if self.attention is None:
            return x
        pixels = self.between(x).flatten(2).transpose(1, 2)
        keys = torch.cat([pixels, self.text(text).to(pixels.dtype)], 1)
        hidden = functional.pad(padding, (pixels.size(1), 0))
        mixed, _ = self.attention(pixels, keys, keys, key_padding_mask=hidden, need_weights=False)
        return x + mixed.transpose(1, 2).reshape(x.shape)


class Velocity(nn.Module):
    def __init__(self, widths: tuple[int, ...], condition: int, text: int) -> None:
        super().__init__()
        self.register_buffer("rates", torch.randn(condition // 2), persistent=False)
        self.times = nn.Sequential(
            nn.Linear(condition, condition), nn.SiLU(), nn.Linear(condition, condition), nn.SiLU()
        )
        self.enter = nn.Conv2d(12, widths[0], 3, padding=1)
        pairs = [*pairwise((widths[0], *widths))]
        block = lambda before, after, i: Filmed(before, after, condition, text, 5 if i else 0)  # noqa: E731
        self.down = nn.ModuleList(block(before, after, i) for i, (before, after) in enumerate(pairs))
        self.small = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for width in widths[:-1])
        self.up = nn.ModuleList(block(2 * after, before, i) for i, (before, after) in [*enumerate(pairs)][::-1])
        self.leave = nn.Sequential(nn.GroupNorm(8, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 12, 3, padding=1))

    def forward(self, noisy: Tensor, times: Tensor, text: Tensor, padding: Tensor) -> Tensor:
        angles = 2 * math.pi * times[:, None] * self.rates
        condition = self.times(torch.cat([angles.sin(), angles.cos()], 1).to(noisy.dtype))
        x, kept = self.enter(functional.pixel_unshuffle(noisy, 2)), []
        for i, block in enumerate(self.down):
            x = block(self.small[i - 1](x) if i else x, condition, text, padding)
            kept.append(x)
        for i, block in enumerate(self.up):
            skip = kept.pop()
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest") if i else x
            x = block(torch.cat([x, skip], 1), condition, text, padding)
        return functional.pixel_shuffle(self.leave(x), 2)


def velocity(setup: Setup) -> Step:
    """Diffusion that predicts velocities, with texts that are sometimes left out, weights by the noise, and averaged weights."""
    size, words, width = setup.pick((80, 37, 384), (16, 5, 16))
    model = setup.place(Velocity(setup.pick((160, 320, 480), (40, 40, 80)), setup.pick(512, 32), width))
    average = copy.deepcopy(model).requires_grad_(False)
    kept = torch.linspace(1e-4, 0.02, 1000, device=setup.device).neg().add(1).cumprod(0)

    def make() -> Inputs:
        lengths = setup.whole(words, setup.batch) + 1
        padding = torch.arange(words, device=setup.device) >= lengths[:, None]
        dropped = torch.rand(setup.batch, 1, 1, device=setup.device) < 0.1
        text = setup.real(setup.batch, words, width).masked_fill(dropped, 0)
        return setup.real(setup.batch, 3, size, size), text, padding, setup.whole(1000, setup.batch)

    def loss_of(model: nn.Module, images: Tensor, text: Tensor, padding: Tensor, times: Tensor) -> Tensor:
        noise, level = torch.randn_like(images), kept[times][:, None, None, None]
        clear, blurred = level.sqrt().to(images.dtype), (1 - level).sqrt().to(images.dtype)
        found = model(clear * images + blurred * noise, times / 1000, text, padding)
        apart = functional.mse_loss(found.float(), (clear * noise - blurred * images).float(), reduction="none")
        ratio = (level / (1 - level)).flatten()
        return (apart.mean((1, 2, 3)) * ratio.clamp(max=5) / (ratio + 1)).mean()

    adamw = lambda weights: torch.optim.AdamW(weights, 2e-4, (0.9, 0.99), weight_decay=0.01, fused=True)  # noqa: E731
    step = train(setup, model, make, loss_of, adamw, max_norm=1.0)

    def averaged() -> Tensor:
        loss = step()
        with torch.no_grad():
            for old, new in zip(average.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.001)
        return loss

    return averaged

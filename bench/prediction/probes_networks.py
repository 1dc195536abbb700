"""The convolutions of published networks: shapes as they occur together, which random ones seldom are.

Each group takes some networks of torchvision with a batch, an image size, a precision and a layout of random choice, and has each of their
convolutions once. Groups with even numbers are for choosing rules, the others for showing how exact the rules are. Networks of the halves
`prove` and `fresh` (families.py) are in neither.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from probing import BF16, F16, F32, Probe, both, real
from torch import Tensor, nn
from torch.nn import functional

NETWORKS = (
    "alexnet", "convnext_small", "convnext_base", "googlenet", "inception_v3", "maxvit_t", "mnasnet1_0", "regnet_x_1_6gf", "regnet_x_8gf",
    "regnet_y_800mf", "regnet_y_3_2gf", "regnet_y_16gf", "resnet18", "resnet34", "resnet50", "resnet101", "resnext50_32x4d",
    "resnext101_32x8d", "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg16_bn", "vit_b_16", "wide_resnet50_2",
    "segmentation.fcn_resnet50", "video.r3d_18", "video.mc3_18", "video.r2plus1d_18", "video.s3d", "unet",
)  # fmt: skip
BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 200, 256)
IMAGE_SIZES = (128, 160, 192, 224, 224, 256, 288, 320, 384, 448, 512)
MAX_BYTES = 1200 << 20
GROUPS_COUNT = 24
NETWORKS_OF_GROUP = 7


@dataclass(frozen=True)
class Layer:
    """One convolution: the input's shape without its batch, the weight's shape, and how it is called."""

    input: tuple[int, ...]
    weight: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    transposed: bool
    has_bias: bool


def _level(before: int, after: int) -> nn.Module:
    parts = [
        part for width in (before, after) for part in (nn.Conv2d(width, after, 3, padding=1, bias=False), nn.ReLU())
    ]
    return nn.Sequential(*parts)


class _UNet(nn.Module):
    """Two convolutions a level, and transposed ones to the level above; widths from 32 to 96 at the top."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = [width << i for i in range(5)]
        self.down = nn.ModuleList(
            _level(before, after) for before, after in zip((3, *widths[:-1]), widths, strict=True)
        )
        self.up = nn.ModuleList(nn.ConvTranspose2d(after, after // 2, 2, 2) for after in widths[:0:-1])
        self.join = nn.ModuleList(_level(after, after // 2) for after in widths[:0:-1])

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([skip, up(x)], 1))
        return x


def _network(name: str, choose: random.Random) -> nn.Module:
    import torchvision

    if name == "unet":
        return _UNet(choose.choice((32, 48, 64, 96)))
    folder, _, last = name.rpartition(".")
    models: Any = getattr(torchvision.models, folder) if folder else torchvision.models
    more = {"weights_backbone": None} if folder == "segmentation" else {}
    if last in ("googlenet", "inception_v3"):
        more = {"init_weights": False}
    return models.__dict__[last](weights=None, **more)  # type: ignore[no-any-return]


def layers(name: str, size: int, choose: random.Random) -> list[Layer]:
    """Returns the different convolutions of a network, in order."""
    found: dict[Layer, None] = {}

    def note(module: Any, arguments: Any, _result: Any) -> None:
        shape = tuple(arguments[0].shape[1:])
        found[
            Layer(shape, tuple(module.weight.shape), module.stride, module.padding, module.dilation, module.groups, module.transposed,
                  module.bias is not None)
        ] = None  # fmt: skip

    with torch.device("meta"):
        network = _network(name, choose)
        for module in network.modules():
            if isinstance(module, nn.modules.conv._ConvNd):
                module.register_forward_hook(note)
        shape = (2, 3, 16, size // 2, size // 2) if name.startswith("video.") else (2, 3, size, size)
        network(torch.empty(shape))
    return list(found)


def _size(name: str, choose: random.Random) -> int:
    """Returns a size of images; some networks take only theirs."""
    fixed = {"vit_b_16": 224, "maxvit_t": 224}
    size = fixed.get(name) or choose.choice(IMAGE_SIZES)
    return max(size, 299) if name in ("inception_v3", "video.s3d") else size


@dataclass(frozen=True)
class Convolution:
    """A layer with a batch, a precision and a layout."""

    layer: Layer
    batch: int
    dtype: torch.dtype
    is_last: bool
    needs_input: bool  # the gradient of the input

    @property
    def name(self) -> str:
        layer = self.layer
        kind = "transposed " if layer.transposed else ""
        shapes = f"{self.batch}x{layer.input} {layer.weight} s{layer.stride} g{layer.groups}"
        return f"{kind}{self.dtype} {shapes}{' last' if self.is_last else ''}"

    @property
    def outs(self) -> int:
        layer = self.layer
        return layer.weight[1] * layer.groups if layer.transposed else layer.weight[0]

    @property
    def is_small(self) -> bool:
        numel = self.batch * torch.Size(self.layer.input).numel()
        return numel * max(1, self.outs // self.layer.input[0]) * self.dtype.itemsize <= MAX_BYTES

    def operands(self) -> tuple[Tensor, Tensor]:
        """Returns an input and a weight."""
        tensors = real(self.batch, *self.layer.input, dtype=self.dtype), real(*self.layer.weight, dtype=self.dtype)
        if not self.is_last:
            return tensors
        memory = torch.channels_last if len(self.layer.weight) == 4 else torch.channels_last_3d
        x, weight = (value.detach().to(memory_format=memory).requires_grad_() for value in tensors)
        return x, weight

    def run(self) -> None:
        """Runs forward and backward."""
        layer, dims = self.layer, len(self.layer.weight) - 2
        call: Any = getattr(functional, f"conv_transpose{dims}d" if layer.transposed else f"conv{dims}d")
        kept = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
        x, weight = self.operands()
        x.requires_grad_(self.needs_input)
        values = (x, weight, real(self.outs, dtype=self.dtype)) if layer.has_bias else (x, weight)
        both(functools.partial(call, **kept), *values)()


def convolutions(seed: int) -> Iterator[Convolution]:
    """Yields the convolutions of some networks."""
    choose = random.Random(1000 + seed)
    for name in choose.sample(NETWORKS, NETWORKS_OF_GROUP):
        batch, dtype, is_last = choose.choice(BATCHES), choose.choice((F32, F32, BF16, F16)), choose.random() < 0.25
        try:
            found = layers(name, _size(name, choose), choose)
        except (RuntimeError, ValueError):  # an image too small for the network
            continue
        made = (Convolution(layer, batch, dtype, is_last, needs_input=number > 0) for number, layer in enumerate(found))
        yield from (each for each in made if each.is_small)


def probes(seed: int) -> Iterator[Probe]:
    yield from ((each.name, each.run) for each in convolutions(seed))


GROUPS: dict[str, Callable[[], Iterator[Probe]]] = {
    f"network_conv_{seed}": functools.partial(probes, seed) for seed in range(GROUPS_COUNT)
}

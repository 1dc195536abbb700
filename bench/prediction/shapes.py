"""Convolutions as training programs have them: layers of networks, traced without tensors, and the questions to cuDNN that they lead to."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vram.dry._convolutions import is_last, is_native
from vram.dry._workspaces import DATA, FORWARD, WEIGHT

# PyTorch splits calls with more elements.
MAX_NUMEL = (1 << 31) - 1
DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
# What all outputs of a network may have in memory, in bytes.
MAX_NETWORK_BYTES = 70e9
SIDES = (28, 32, 48, 56, 64, 80, 84, 96, 112, 128, 144, 160, 176, 192, 208, 224, 224, 256, 256, 288, 299, 320, 336, 352, 384, 400, 416, 448, 480,
         512, 512, 544, 576, 600, 608, 640, 672, 720, 768, 800, 832, 896, 960, 1024, 1280)  # fmt: skip


@dataclass(frozen=True)
class Layer:
    """One convolution as its call has it; shapes are without the batch."""

    input: tuple[int, ...]
    weight: tuple[int, ...]
    output: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1
    is_transposed: bool = False
    needs_input: bool = True  # the gradient of the input
    is_modulated: bool = False  # each image has a weight of its own: one image, and a group for each


class ImpossibleError(Exception):
    """An image is too small for a network."""


def tuple_of(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


@dataclass
class Trace:
    """Follows the shape of an image through a network, and notes its convolutions."""

    channels: int
    sizes: tuple[int, ...]
    layers: dict[Layer, None] = field(default_factory=dict)
    max_batch: int = 512
    has_input_gradient: bool = False

    def at(self, channels: int, *sizes: int) -> Trace:
        """Continues with another shape."""
        self.channels = channels
        if sizes:
            self.sizes = sizes
        return self

    def conv(
        self, outs: int, kernel: Any = 3, stride: Any = 1, padding: Any = None, dilation: Any = 1, groups: int = 1, modulated: bool = False
    ) -> Trace:  # fmt: skip
        """Notes a convolution; its padding keeps the size unless it is stated."""
        rank = len(self.sizes)
        kernel, stride, dilation = (tuple_of(each, rank) for each in (kernel, stride, dilation))
        padding = (
            tuple(d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True))
            if padding is None
            else tuple_of(padding, rank)
        )
        sizes = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(self.sizes, kernel, stride, padding, dilation, strict=True)
        )  # fmt: skip
        if (
            min(sizes) < 1
            or min(n + 2 * p - d * (k - 1) for n, k, p, d in zip(self.sizes, kernel, padding, dilation, strict=True))
            < 1
        ):
            raise ImpossibleError
        if self.channels % groups or outs % groups:
            raise ImpossibleError
        self._note(
            (outs, self.channels // groups, *kernel),
            (outs, *sizes),
            stride,
            padding,
            dilation,
            groups,
            False,
            modulated,
        )
        return self.at(outs, *sizes)

    def depthwise(self, kernel: Any = 3, stride: Any = 1, padding: Any = None, dilation: Any = 1) -> Trace:
        return self.conv(self.channels, kernel, stride, padding, dilation, self.channels)

    def transposed(
        self, outs: int, kernel: Any, stride: Any, padding: Any = 0, output_padding: Any = 0, groups: int = 1
    ) -> Trace:
        rank = len(self.sizes)
        kernel, stride, padding, more = (tuple_of(each, rank) for each in (kernel, stride, padding, output_padding))
        sizes = tuple(
            (n - 1) * s - 2 * p + k + o for n, k, s, p, o in zip(self.sizes, kernel, stride, padding, more, strict=True)
        )
        if min(sizes) < 1 or self.channels % groups or outs % groups:
            raise ImpossibleError
        self._note(
            (self.channels, outs // groups, *kernel), (outs, *sizes), stride, padding, (1,) * rank, groups, True, False
        )
        return self.at(outs, *sizes)

    def pool(self, kernel: int = 2, stride: Any = None, padding: int = 0, is_ceil: bool = False) -> Trace:
        steps = tuple_of(kernel if stride is None else stride, len(self.sizes))
        sizes = tuple(
            (n + 2 * padding - kernel + (s - 1 if is_ceil else 0)) // s + 1
            for n, s in zip(self.sizes, steps, strict=True)
        )
        if min(sizes) < 1:
            raise ImpossibleError
        return self.at(self.channels, *sizes)

    def grow(self, factor: int = 2) -> Trace:
        return self.at(self.channels, *(n * factor for n in self.sizes))

    def _note(
        self,
        weight: Any,
        output: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        transposed: bool,
        modulated: bool,
    ) -> None:
        needs_input = bool(self.layers) or self.has_input_gradient
        layer = Layer(
            (self.channels, *self.sizes),
            weight,
            output,
            stride,
            padding,
            dilation,
            groups,
            transposed,
            needs_input,
            modulated,
        )
        self.layers[layer] = None


class Rng(random.Random):
    """Random choices as networks make them."""

    def chance(self, share: float) -> bool:
        return self.random() < share

    def log(self, low: float, high: float) -> int:
        """Returns an integer between both, small ones as often as large ones by their logarithms."""
        return min(int(high), max(int(low), round(math.exp(self.uniform(math.log(low), math.log(high))))))

    def width(self, low: int, high: int) -> int:
        """Returns a number of channels: mostly a power of two or a multiple of one."""
        value, kind = self.log(low, high), self.random()
        if kind < 0.4:
            value = 1 << round(math.log2(value))
        elif kind < 0.92:
            unit = self.choice((4, 8, 8, 16, 16, 32)) if value < 256 else self.choice((8, 16, 32, 64))
            value = max(unit, round(value / unit) * unit)
        return max(low, min(high, value)) if kind >= 0.92 else max(1, value)

    def side(self, low: int, high: int) -> int:
        """Returns an image's height or width."""
        known, kind = [each for each in SIDES if low <= each <= high], self.random()
        if known and kind < 0.7:
            return self.choice(known)
        value, unit = self.log(low, high), 1 if kind > 0.93 else self.choice((4, 8, 16, 32))
        return max(low, min(high, round(value / unit) * unit))

    def image(self, low: int, high: int, share: float = 0.15) -> tuple[int, int]:
        """Returns height and width; a share of the images is not square."""
        side = self.side(low, high)
        return (side, self.side(low, high)) if self.chance(share) else (side, side)

    def batch(self, high: int = 512) -> int:
        kind = self.random()
        if kind < 0.55:
            return 1 << self.randint(0, int(math.log2(high)))
        value = self.log(1, high)
        return max(1, value // 8 * 8) if kind < 0.75 else max(1, value // 2 * 2) if kind < 0.88 else value


@dataclass(frozen=True)
class Question:
    """A plain convolution of a batch, and the directions that a program has; a transposed one is asked as the one that it inverts."""

    x: tuple[int, ...]
    weight: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: str
    is_last: bool
    directions: tuple[str, ...]


class _Tensor:
    """A shape with the strides of a layout, for the rules of vram."""

    def __init__(self, shape: Sequence[int], dtype: str, last: bool) -> None:
        self.shape, self.dtype = tuple(shape), f"torch.{dtype}"
        order = [0, *range(2, len(shape)), 1] if last and len(shape) in (4, 5) else [*range(len(shape))]
        self._strides, step = [0] * len(shape), 1
        for dim in reversed(order):
            self._strides[dim] = step
            step *= shape[dim]

    def stride(self) -> list[int]:
        return self._strides


def question_of(layer: Layer, batch: int, dtype: str, last: bool) -> Question | None:
    """Returns the question of a layer, or None if cuDNN is not asked about it."""
    x_shape, weight_shape, y_shape = (batch, *layer.input), layer.weight, (batch, *layer.output)
    groups = layer.groups
    if layer.is_modulated:
        x_shape, y_shape = ((1, batch * shape[0], *shape[1:]) for shape in (layer.input, layer.output))
        weight_shape, groups = (batch * layer.weight[0], *layer.weight[1:]), batch
    if max(map(math.prod, (x_shape, weight_shape, y_shape))) > MAX_NUMEL:
        return None
    x, weight = _Tensor(x_shape, dtype, last), _Tensor(weight_shape, dtype, last)
    if is_native(x, weight, layer.stride, layer.dilation, layer.is_transposed, groups):
        return None
    wanted = (FORWARD, DATA, WEIGHT) if layer.needs_input else (FORWARD, WEIGHT)
    if layer.is_transposed:
        x_shape, y_shape = y_shape, x_shape
        wanted = tuple({FORWARD: DATA, DATA: FORWARD}.get(each, each) for each in wanted)
    shapes, steps = (x_shape, weight_shape, y_shape), (layer.stride, layer.padding, layer.dilation)
    if len(x_shape) == 3:  # PyTorch makes it two-dimensional
        shapes = tuple((*shape[:2], 1, *shape[2:]) for shape in shapes)  # type: ignore[assignment]
        steps = tuple((first, *each) for first, each in zip((1, 0, 1), steps, strict=True))  # type: ignore[assignment]
    return Question(*shapes, *steps, dtype, is_last(x) or is_last(weight), wanted)


def questions(trace: Trace, choose: Rng, count: int) -> Iterator[Question]:
    """Yields questions of some layers of a network, with one batch, precision and layout."""
    dtype = choose.choice(("float32",) * 5 + ("bfloat16",) * 3 + ("float16",) * 2)
    last = choose.chance(0.25)
    layers = list(trace.layers)
    bytes_of_one = sum(math.prod(layer.output) for layer in layers) * DTYPES[dtype]
    batch = choose.batch(trace.max_batch)
    if choose.chance(0.5):  # as much as a GPU has room for
        batch = max(1, min(trace.max_batch, choose.log(MAX_NETWORK_BYTES / 500, MAX_NETWORK_BYTES) // bytes_of_one))
        unit = choose.choice((1, 2, 4, 8, 8, 16))
        batch = 1 << batch.bit_length() - 1 if choose.chance(0.5) else max(1, batch // unit * unit)
    while batch > 1 and batch * bytes_of_one > MAX_NETWORK_BYTES:
        batch //= 2
    for layer in choose.sample(layers, min(count, len(layers))):
        if question := question_of(layer, batch, dtype, last):
            yield question

"""Convolutions of random shapes, as they occur in networks: what cuDNN's choice of algorithms allocates for each of them.

Groups with even numbers are for choosing rules, the others for showing how exact the rules are.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from probing import BF16, F16, F32, Probe, both, real
from torch.nn import functional

CHANNELS = (8, 12, 16, 20, 24, 32, 40, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256, 256, 320, 384, 480, 512, 512, 640, 768, 960, 1024, 1280, 2048)  # fmt: skip
SIZES = {
    1: (49, 100, 128, 249, 500, 512, 1000, 1500, 2000, 3000, 4096, 8000, 16000, 48000, 80000),
    2: (4, 7, 8, 10, 13, 14, 16, 17, 20, 24, 28, 32, 40, 48, 56, 64, 75, 80, 100, 112, 128, 150, 160, 192, 200, 224, 256, 300, 384, 512),
    3: (4, 7, 8, 14, 16, 28, 32, 48, 56, 64, 96, 112),
}  # fmt: skip
MOST_BYTES = 400 << 20


def _kernel(choose: random.Random, dims: int) -> tuple[Any, Any]:
    """Returns kernel and stride: the kinds of layers that networks have."""
    if dims == 1:
        kernel = choose.choice((1, 2, 3, 3, 5, 7, 8, 10, 15, 16, 31))
        return kernel, kernel if kernel in (8, 16) else choose.choice((1, 1, 2, 5))
    if dims == 3:
        kernel = choose.choice(((3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (1, 1, 1), (2, 2, 2)))
        return kernel, choose.choice((1, 1, 2))
    kernel = choose.choice((1, 1, 1, 3, 3, 3, 3, 3, 5, 7, 2, 4, 16, (1, 3), (3, 1)))
    return kernel, kernel if kernel in (2, 4, 16) else choose.choice((1, 1, 1, 2))


def _one(choose: random.Random, dims: int, benchmark: bool) -> tuple[str, Callable[[], Callable[[], None]]] | None:
    """Returns a convolution as its name and what makes its call, or None if it would be too large or impossible."""
    dtype = choose.choice((F32, F32, F32, BF16, BF16, F16))
    kernel, stride = _kernel(choose, dims)
    before = choose.choice((1, 3, 3, 4, *CHANNELS)) if choose.random() < 0.25 else choose.choice(CHANNELS)
    after = choose.choice(CHANNELS) if choose.random() < 0.6 else before
    after = choose.choice((1, 2, 3, 10, 19, 21, 91)) if choose.random() < 0.05 else after
    batch = choose.choice((1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256))
    size = choose.choice(SIZES[dims])
    transposed = choose.random() < 0.08
    groups = 1
    if not transposed and choose.random() < 0.2:
        groups = before if choose.random() < 0.7 else choose.choice((2, 4, 8, 16, 32))
        after = before if groups == before else after
    dilation = choose.choice((2, 4, 12)) if choose.random() < 0.08 and kernel == 3 else 1
    last = dims > 1 and choose.random() < 0.3
    bias, gradient = choose.random() < 0.5, choose.random() > 0.1
    if before % groups or after % groups or (transposed and stride == 1 and kernel == 1):
        return None
    kernels = kernel if isinstance(kernel, tuple) else (kernel,) * dims
    padding = tuple(0 if k == stride else k // 2 * dilation for k in kernels)
    if any(size + 2 * p < dilation * (k - 1) + 1 for k, p in zip(kernels, padding, strict=True)):
        return None
    scale = (stride if transposed else 1 / stride) ** dims
    if batch * size**dims * max(before, after * scale) * (4 if dtype is F32 else 2) > MOST_BYTES:
        return None
    shape = (before, after // groups, *kernels) if transposed else (after, before // groups, *kernels)
    name = (
        f"{'transposed ' if transposed else ''}conv{dims}d {dtype} {batch}x{before}->{after} {size} k{kernels} s{stride} p{padding} g{groups}"
        f" d{dilation}{' last' if last else ''}{'' if bias else ' no bias'}{'' if gradient else ' first'}"
    )
    plain = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[dims]
    turned = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}[dims]

    def made() -> Callable[[], None]:
        x, weight = real(batch, before, *(size,) * dims, dtype=dtype), real(*shape, dtype=dtype)
        if last:
            memory = torch.channels_last if dims == 2 else torch.channels_last_3d
            x, weight = (value.detach().to(memory_format=memory).requires_grad_() for value in (x, weight))
        x.requires_grad_(gradient)
        values = (x, weight, real(after, dtype=dtype)) if bias else (x, weight)
        kept = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return both(functools.partial(turned if transposed else plain, **kept), *values)

    def run() -> None:
        with torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, deterministic=False, allow_tf32=True):
            made()()

    return name, run


def sampled(dims: int, seed: int, count: int, benchmark: bool = False) -> Iterator[Probe]:
    choose = random.Random(seed)
    while count:
        if found := _one(choose, dims, benchmark):
            yield found
            count -= 1


def _groups() -> dict[str, Callable[[], Iterator[Probe]]]:
    found: dict[str, Callable[[], Iterator[Probe]]] = {}
    for seed in range(8):
        found[f"sampled_conv2d_{seed}"] = functools.partial(sampled, 2, seed, 900)
    for seed in range(2):
        found[f"sampled_conv1d_{seed}"] = functools.partial(sampled, 1, 100 + seed, 400)
        found[f"sampled_conv3d_{seed}"] = functools.partial(sampled, 3, 200 + seed, 300)
        found[f"sampled_conv2d_benchmark_{seed}"] = functools.partial(sampled, 2, 300 + seed, 150, True)
    return found


GROUPS = _groups()

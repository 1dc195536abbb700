"""The scratch memory of PyTorch's reductions on a GPU (sum, mean, norms): how a reduction is divided among thread blocks.

Follows `at::native::setReduceConfig` of aten/src/ATen/native/cuda/Reduce.cuh. If several blocks share an output, their partial results meet in a buffer
in global memory, guarded by counters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vram.dry._arithmetic import ceil_div

_MAX_THREADS = 512
_WARP = 32
_VECTOR = 4
_MIN_VALUES, _MAX_VALUES = 16, 256  # of a thread
_COUNTER_BYTES = 4


def _power_of_2(value: int) -> int:
    """Returns the largest power of 2 that is not above `value`."""
    return 1 << (max(1, value).bit_length() - 1)


def _merged(tensor: Any, dims: set[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Returns (length, stride) of the reduced and of the other dimensions, fastest first, with neighbours merged where memory allows."""
    groups = []
    strides = tensor.stride()
    for wanted in (True, False):
        found = sorted(
            (
                (int(strides[d]), int(length))
                for d, length in enumerate(tensor.shape)
                if (d in dims) == wanted and length != 1
            )
        )
        merged: list[tuple[int, int]] = []
        for stride, length in found:
            if merged and merged[-1][0] * merged[-1][1] == stride:
                merged[-1] = (merged[-1][0] * length, merged[-1][1])
            else:
                merged.append((length, stride))
        groups.append(merged)
    return groups[0], groups[1]


def scratch(
    tensor: Any,
    dims: Sequence[int] | int | None,
    processors: int,
    processor_threads: int,
    element_bytes: int | None = None,
) -> tuple[int, int]:
    """Return the bytes of the buffer and of the counters; 0 if no output is shared.

    Args:
        tensor: What is reduced; its shape, strides and type count.
        dims: The reduced dimensions; None or none of them: all.
        processors: Streaming multiprocessors of the GPU.
        processor_threads: Threads that one of them can hold.
        element_bytes: Bytes of a partial result; None: of a sum.
    """
    rank = len(tensor.shape)
    wanted = [dims] if isinstance(dims, int) else [*(dims or range(rank))]
    reduced, kept = _merged(tensor, {dim % rank for dim in wanted} if rank else set())
    inputs, outputs = (math.prod(length for length, _ in group) for group in (reduced, kept))
    if not inputs * outputs:
        return 0, 0
    # Partial sums of 64-bit types have 8 bytes, all others have 4; 8-bit to 32-bit integers are summed in 64 bits.
    is_wide = str(tensor.dtype).rpartition(".")[2] in ("float64", "int64", "int32", "int16", "int8", "uint8", "bool")
    element_bytes = element_bytes or (8 if is_wide else 4)

    along_inputs = not kept or (bool(reduced) and reduced[0][1] < kept[0][1])
    lanes, rows = (inputs, outputs) if along_inputs else (outputs, inputs)
    fastest = (reduced or [(1, 1)])[0][1] if along_inputs else kept[0][1]
    vector = 1
    if fastest == 1:
        if along_inputs and lanes >= 128 and len(reduced) == 1:
            lanes //= _VECTOR
        elif not along_inputs:
            vector = _VECTOR
            for number in (kept[0][0], *(stride for _, stride in (*reduced, *kept[1:]))):
                while number % vector:
                    vector //= 2
            lanes //= vector

    limit = _MAX_THREADS // vector
    width_limit, height_limit = min(_power_of_2(lanes), limit), min(_power_of_2(rows), limit)
    width = min(width_limit, _WARP)
    height = min(height_limit, limit // width)
    width = min(width_limit, limit // height)

    input_step, output_step = (width, 1) if along_inputs else (1, width)
    values = ceil_div(inputs, input_step)
    if values < min(height * 16, _MAX_VALUES):
        return 0, 0  # each row of threads has an output of its own
    values = ceil_div(inputs, input_step * height)
    grid = ceil_div(outputs // vector, output_step)
    target = processors * (processor_threads // (width * height))
    if values < _MAX_VALUES or grid > target:
        return 0, 0
    blocks = max(min(ceil_div(target, grid), ceil_div(values, _MIN_VALUES)), ceil_div(values, _MAX_VALUES))
    if blocks <= 1:
        return 0, 0
    buffer = element_bytes * outputs * blocks * (1 if along_inputs else width * vector)
    return buffer, _COUNTER_BYTES * grid

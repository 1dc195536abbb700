"""Sizes of tensors, and of the copies that kernels make of those which are not stored as they want them.

Only shapes, strides and types of the tensors are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vram.dry._convolutions import is_contiguous


@dataclass(frozen=True)
class Matrix:
    """A tensor that a kernel makes inside, as far as formulas need it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any

    def stride(self) -> tuple[int, ...]:
        return self.strides


def numel(tensor: Any) -> int:
    return math.prod(int(length) for length in tensor.shape)


def itemsize(tensor: Any) -> int:
    return int(tensor.dtype.itemsize)


def nbytes(tensor: Any) -> int:
    return numel(tensor) * itemsize(tensor)


def is_dense(tensor: Any) -> bool:
    """Whether the elements of a tensor fill its memory, each once."""
    expected = 1
    for stride, length in sorted(
        (int(stride), int(length)) for stride, length in zip(tensor.stride(), tensor.shape) if length != 1
    ):
        if stride != expected:
            return False
        expected *= length
    return True


def copy_bytes(tensor: Any) -> int:
    return 0 if is_contiguous(tensor) else nbytes(tensor)


def _swapped(tensor: Any, first: int, second: int) -> Matrix:
    shape, strides = [*tensor.shape], [*tensor.stride()]
    for each in (shape, strides):
        each[first], each[second] = each[second], each[first]
    return Matrix(tuple(shape), tuple(strides), tensor.dtype)


def sequence_copy_bytes(tensor: Any) -> int:
    """Bytes of a copy in which the heads of attention follow the sequence; 0 if the tensor is stored so."""
    return copy_bytes(_swapped(tensor, 1, 2))


def steps_copy_bytes(tensor: Any, batch_first: bool) -> int:
    """Bytes of a copy whose first dimension is the time; 0 if the tensor is stored so."""
    return copy_bytes(_swapped(tensor, 0, 1) if batch_first and len(tensor.shape) == 3 else tensor)


def product_copy_bytes(tensor: Any) -> int:
    """Bytes of the contiguous copy of matrices of which neither rows nor columns are stored without gaps, such as an expanded number's."""
    rows, columns = (int(length) for length in tensor.shape[-2:])
    down, right = (int(stride) for stride in tensor.stride()[-2:])
    is_read = (down == 1 and right >= max(1, rows)) or (right == 1 and down >= max(1, columns))
    return 0 if is_read or (len(tensor.shape) == 2 and is_dense(tensor)) else copy_bytes(tensor)

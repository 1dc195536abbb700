"""What cuFFT's transforms allocate besides their results: copies into the order that cuFFT wants, and workspaces of lengths with large primes.

Found with the even group of the probes `sampled_fft` of bench/prediction (one H200, PyTorch 2.11), and compared with the odd one.
"""

from __future__ import annotations

import math
from typing import Any

from vram.dry._convolutions import is_contiguous

_MAX_PRIME = 127  # cuFFT computes lengths with larger prime factors by a convolution
# Real transforms of an even length are complex ones of half of it. Of odd lengths, 243 needs no workspace on an H200, and 255 does; the primes
# between those of the two, 7, 11 and 13, were not measured.
_MAX_ODD_PRIME = 7


def _largest_prime(length: int) -> int:
    factor = 2
    while factor * factor <= length:
        if length % factor:
            factor += 1
        else:
            length //= factor
    return length


def _has_workspace(length: int) -> bool:
    """Whether a real transform of this length needs a workspace, for all numbers as complex ones."""
    return _largest_prime(length) > (_MAX_ODD_PRIME if length % 2 else _MAX_PRIME)


def transform_bytes(x: Any, dims: Any, result: Any) -> int:
    """Return the bytes in addition to the result of aten::_fft_r2c, _fft_c2c and _fft_c2r with these arguments."""
    shape = [int(length) for length in x.shape]
    bytes_in = math.prod(shape) * int(x.dtype.itemsize)
    bytes_out = math.prod(map(int, result.shape)) * int(result.dtype.itemsize)
    along = [int(dim) % len(shape) for dim in dims]
    last = along[-1]
    is_turned = last != len(shape) - 1 and math.prod(shape[:last]) > 1
    if x.dtype.is_complex and not result.dtype.is_complex:  # which overwrites its operand
        copied = bytes_in * (1 + is_turned)
        return copied + (2 * bytes_out if _has_workspace(int(result.shape[last])) else 0)
    copied = bytes_in if is_turned or not is_contiguous(x) else 0
    if x.dtype.is_complex:
        return copied
    if along[:2] == [0, 1]:  # one dimension first, then the others
        copied += bytes_out
    return copied + (2 * bytes_in if _has_workspace(shape[last]) else 0)

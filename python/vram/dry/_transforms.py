"""What cuFFT's transforms allocate besides their results: copies into the order that cuFFT wants, and workspaces.

Copies were found with the even group of the probes `sampled_fft` of bench/prediction (one H200, PyTorch 2.11), and compared with the odd one. The
lengths that need workspaces were found with 46 lengths on another H200 (bench/prediction/transforms-h200.json); limits between two of them are assumed.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from vram.dry._convolutions import is_contiguous

# cuFFT computes lengths with larger prime factors by a convolution: long ones in a workspace of some times the numbers.
_MAX_PRIME, _SHORT = 127, 4096
_OF_LONG_CONVOLUTION = {False: 4, True: 5}  # of complex numbers, and of real ones
# The longest complex transform that one kernel does; one with large primes is shorter.
_ONE_KERNEL, _ONE_KERNEL_OF_PRIMES, _LARGE_PRIME = 25_000, 8_192, 19
# The same of real transforms. Odd lengths have kernels for powers of small primes, and for products of smaller ones.
_ONE_KERNEL_OF_POWER_OF_2, _PRIME_OF_POWER, _PRIME_OF_ODD, _PRIME_OF_EVEN, _LONGEST_ODD = 16_384, 17, 11, 13, 1_000


def _primes(length: int) -> set[int]:
    found, factor = set(), 2
    while factor * factor <= length:
        if length % factor:
            factor += 1
        else:
            length //= factor
            found.add(factor)
    return found | {length}


@functools.cache
def _workspace(length: int, *, is_real: bool) -> int:
    """Return how many times the numbers that are transformed are in a workspace."""
    primes = _primes(length)
    largest = max(primes)
    if largest > _MAX_PRIME and length > _SHORT:
        return _OF_LONG_CONVOLUTION[is_real]
    if not is_real:
        return int(length > (_ONE_KERNEL_OF_PRIMES if largest > _LARGE_PRIME else _ONE_KERNEL))
    if length % 2:
        is_power = len(primes) == 1 and largest <= _PRIME_OF_POWER
        return 0 if is_power or (largest <= _PRIME_OF_ODD and length <= _LONGEST_ODD) else 2
    if largest > _MAX_PRIME:
        return 2
    return int(length > _ONE_KERNEL_OF_POWER_OF_2 if largest == 2 else largest > _PRIME_OF_EVEN or length > _SHORT)


def transform_bytes(x: Any, dims: Any, result: Any, number: int) -> int:
    """Return the bytes of one allocation of aten::_fft_r2c, _fft_c2c and _fft_c2r with these arguments, besides the result: of two copies and a workspace."""
    if not dims:
        return 0  # the result is a copy
    shape = [int(length) for length in x.shape]
    bytes_in = math.prod(shape) * int(x.dtype.itemsize)
    bytes_out = math.prod(map(int, result.shape)) * int(result.dtype.itemsize)
    along = [int(dim) % len(shape) for dim in dims]
    last = along[-1]
    is_turned = last != len(shape) - 1 and math.prod(shape[:last]) > 1
    if x.dtype.is_complex and not result.dtype.is_complex:  # which overwrites its operand
        workspace = bytes_out * _workspace(int(result.shape[last]), is_real=True)
        return (bytes_in, bytes_in * is_turned, workspace)[number]
    copied = bytes_in if is_turned or not is_contiguous(x) else 0
    is_complex = x.dtype.is_complex
    # Of real numbers, one dimension is transformed first, then the others.
    second = bytes_out if not is_complex and along[:2] == [0, 1] else 0
    return (copied, second, bytes_in * _workspace(shape[last], is_real=not is_complex))[number]

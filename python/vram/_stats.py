"""``vram.stats()``: the figures of a device's pool."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from vram import _library
from vram._library import NUMBERS, STATS, Pool


@dataclass(frozen=True)
class Stat:
    """The current value of a figure, its peak, and the sums of its increases and decreases."""

    current: int
    peak: int
    allocated: int
    freed: int


@dataclass(frozen=True)
class Stats:
    """The figures of a device's pool. Names and meanings are those of ``torch.cuda.memory_stats()``.

    Figures for which it has no name come last. Sizes are bytes, ``driver_ns`` is nanoseconds.
    """

    device: int
    allocation: Stat
    allocated_bytes: Stat
    active_bytes: Stat
    requested_bytes: Stat
    reserved_bytes: Stat
    num_alloc_retries: int
    num_ooms: int
    num_device_alloc: int
    num_device_free: int
    limit_bytes: int
    stitches: int
    stitch_reuses: int
    stream_waits: int
    slow_requests: int
    driver_calls: int
    driver_ns: int


def stats(device: int | None = None) -> Stats:
    """Return the figures of a device's pool, without the memory of PyTorch's own allocator.

    Peaks and sums count from the opening of the pool or from their last reset. Opens the pool if it is not open. May be called
    from any thread.

    Args:
        device: the number of the device; None means the current one.

    Raises:
        VramError: there is no such device, or no driver.

    >>> import vram
    >>> try:
    ...     utilization = vram.stats(0).requested_bytes.peak / max(1, vram.stats(0).reserved_bytes.peak)
    ... except vram.VramError as error:
    ...     print(error)  # here there is no GPU
    no pool on device 0: ...
    """
    number = _current_device() if device is None else device
    pool = Pool(number)
    try:
        read = pool.stats()
    finally:
        pool.close()
    figures: dict[str, Any] = {name: _stat(getattr(read, name)) for name in STATS}
    figures.update((name, getattr(read, name)) for name in NUMBERS)
    return Stats(device=number, **figures)


def _stat(read: _library.Stat) -> Stat:
    return Stat(read.current, read.peak, read.allocated, read.freed)


def _current_device() -> int:
    """PyTorch's, where it uses CUDA; else the first."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    return 0

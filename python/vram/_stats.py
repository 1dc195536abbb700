"""``vram.stats()``: the figures of a device's pool."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from vram import _prototypes
from vram._arguments import MAX_INT32, require_integers
from vram._frameworks import used_framework
from vram._library import Pool


@dataclass(frozen=True)
class Stat:
    """A figure now, at its peak, and the sums of its increases and of its decreases."""

    current: int
    peak: int
    allocated: int
    freed: int


@dataclass(frozen=True)
class Stats:
    """The figures of a pool, with the names and meanings of ``torch.cuda.memory_stats()``; the last ones are vram's own."""

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

    Sizes are bytes, driver_ns is nanoseconds. Peaks and sums count from the opening of the pool or their last reset.
    Opens the pool if necessary. Any thread may call this.

    Args:
        device: The device's number. None: the framework's current device, or the first.

    Raises:
        VramError: There is no such device, or no driver.

    >>> import vram
    >>> try:
    ...     utilization = vram.stats(0).requested_bytes.peak / max(1, vram.stats(0).reserved_bytes.peak)
    ... except vram.VramError as error:
    ...     print(error)  # here there is no GPU
    no pool on device 0: ...
    """
    require_integers(0, MAX_INT32, device=device)
    framework = used_framework()
    current = framework.current_device() if framework is not None else None
    number = device if device is not None else current or 0
    pool = Pool(number)
    try:
        read = pool.stats()
    finally:
        pool.close()
    figures = {field.name: getattr(read, field.name) for field in fields(Stats) if field.name != "device"}
    return Stats(device=number, **{name: _figure(figure) for name, figure in figures.items()})


def _figure(read: Any) -> Any:
    if isinstance(read, _prototypes.Stat):
        return Stat(read.current, read.peak, read.allocated, read.freed)
    return read

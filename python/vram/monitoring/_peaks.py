"""Peaks of nested and overlapping regions, from one counter per device that knows only the peak since its last reset.

A framework has one peak per device for the whole process. Measuring the peak of a region requires a reset, which would
destroy the peak for all others. All resets therefore go through this module, which first passes the counter's value to
everything that still needs it: every open region, and the user (``vram.peaks()``).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from vram._arguments import MAX_INT32, require_integers
from vram._frameworks import Counters, Figures, used_framework


@dataclass(frozen=True)
class Peaks:
    """The largest figures of one device, in bytes; None: the framework does not report it. See ``vram.peaks()``.

    >>> Peaks(allocated_bytes=3 << 30, reserved_bytes=4 << 30).allocated_bytes >> 20
    3072
    """

    allocated_bytes: int | None
    reserved_bytes: int | None


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


class PeakOf:
    """The largest figures that it was given."""

    def __init__(self) -> None:
        self.allocated: int | None = None
        self.reserved: int | None = None

    def take(self, figures: Figures) -> None:
        self.allocated = _larger(self.allocated, figures.peak_allocated_bytes)
        self.reserved = _larger(self.reserved, figures.peak_reserved_bytes)


@dataclass
class _Counter:
    """A device's counter: the regions that wait for its peaks, and its last value."""

    waiting: list[PeakOf] = field(default_factory=list)
    user: PeakOf = field(default_factory=PeakOf)
    last_peak: int | None = None  # can only grow after vram's last reset, unless the program resets it


class _Counters:
    def __init__(self) -> None:
        self.lock = threading.Lock()  # of counters and of every reset; held while a framework's counters are read
        self.by_device: dict[tuple[str, int], _Counter] = {}

    def of(self, framework: Counters, device: int) -> _Counter:
        return self.by_device.setdefault((framework.name, device), _Counter())


_counters = _Counters()


def _read(framework: Counters, device: int, counter: _Counter) -> Figures:
    """Read the counter and pass its peak to everything that waits for it."""
    figures = framework.figures(device)
    peak = figures.peak_allocated_bytes
    if peak is not None and counter.last_peak is not None and peak < counter.last_peak:
        counter.user = PeakOf()  # the program has reset its peaks, so earlier ones no longer count
    counter.last_peak = peak
    for waiting in [*counter.waiting, counter.user]:
        waiting.take(figures)
    return figures


def begin(framework: Counters, device: int, peak: PeakOf, reset: bool) -> Figures:
    """Return a device's figures; from here on its peaks are passed to ``peak``."""
    with _counters.lock:
        counter = _counters.of(framework, device)
        figures = _read(framework, device, counter)
        if reset and figures.peak_allocated_bytes is not None:
            framework.reset_peaks(device)
            counter.last_peak = None  # unknown, because another thread may have freed memory meanwhile
        counter.waiting.append(peak)
        return figures


def end(framework: Counters, device: int, peak: PeakOf) -> Figures:
    """Return a device's figures; ``peak`` has received its last value."""
    with _counters.lock:
        counter = _counters.of(framework, device)
        try:
            return _read(framework, device, counter)
        finally:
            counter.waiting = [waiting for waiting in counter.waiting if waiting is not peak]


def current(framework: Counters, device: int) -> Figures:
    """Return a device's figures; its peaks are passed to everything that waits for them."""
    with _counters.lock:
        return _read(framework, device, _counters.of(framework, device))


def peaks(device: int | None = None) -> Peaks:
    """Return a device's peaks in bytes, as if no region had been measured. Any thread may call this.

    ``vram.monitor`` resets PyTorch's peak counters when a region begins, so ``torch.cuda.max_memory_allocated()`` then
    counts from there. This function returns the peak since the program started, or since it reset the counters itself.
    Limit: vram detects such a reset only while the counter is smaller than before. If it has grown larger again, the
    older peak remains. Without a GPU both are None.

    Args:
        device: The device's number. None: the current device.

    Raises:
        ValueError: `device` is negative or not a device's number.

    >>> import vram
    >>> vram.peaks().allocated_bytes is None  # where there is no GPU
    True
    """
    require_integers(0, MAX_INT32, device=device)
    framework = used_framework()
    number = device if device is not None or framework is None else framework.current_device()
    if framework is None or number is None or number not in framework.devices():
        return Peaks(None, None)
    with _counters.lock:
        counter = _counters.of(framework, number)
        _read(framework, number, counter)
        return Peaks(counter.user.allocated, counter.user.reserved)

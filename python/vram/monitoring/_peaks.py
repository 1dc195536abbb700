"""Peaks of nested and overlapping regions, from a counter that only knows the peak since its last reset.

A framework keeps one peak for each device of the process. Measuring the peak of a region requires a reset, which would destroy
the value for everyone else. So all resets go through this module, which first passes the counter's peak on to everything that
still needs it: every open region, and the user (``vram.peaks()``).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from vram._frameworks import Counters, Figures, used_framework


@dataclass(frozen=True)
class Peaks:
    """The peaks of one device, in bytes; None: unknown to the framework. See ``vram.peaks()``.

    >>> Peaks(allocated_bytes=3 << 30, reserved_bytes=4 << 30).allocated_bytes >> 20
    3072
    """

    allocated_bytes: int | None
    reserved_bytes: int | None


def _larger(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


class PeakOf:
    """The largest figures that have been carried to it."""

    def __init__(self) -> None:
        self.allocated: int | None = None
        self.reserved: int | None = None

    def take(self, figures: Figures) -> None:
        self.allocated = _larger(self.allocated, figures.peak_allocated_bytes)
        self.reserved = _larger(self.reserved, figures.peak_reserved_bytes)


@dataclass
class _Counter:
    """A device's counter: who waits for its peaks, and what it said last."""

    waiting: list[PeakOf] = field(default_factory=list)
    user: PeakOf = field(default_factory=PeakOf)
    last_peak: int | None = None  # since our last reset it can only have grown, unless somebody else reset it


class _Counters:
    def __init__(self) -> None:
        self.lock = threading.Lock()  # of counters and of every reset; held while a framework's counters are read
        self.by_device: dict[tuple[str, int], _Counter] = {}

    def of(self, framework: Counters, device: int) -> _Counter:
        return self.by_device.setdefault((framework.name, device), _Counter())


_counters = _Counters()


def _read(framework: Counters, device: int, counter: _Counter) -> Figures:
    """Reads the counter and carries its peak to all who wait for it."""
    figures = framework.figures(device)
    peak = figures.peak_allocated_bytes
    if peak is not None and counter.last_peak is not None and peak < counter.last_peak:
        counter.user = PeakOf()  # the program has reset its peaks: what was before is no longer asked for
    counter.last_peak = peak
    for waiting in [*counter.waiting, counter.user]:
        waiting.take(figures)
    return figures


def begin(framework: Counters, device: int, peak: PeakOf, reset: bool) -> Figures:
    """What a device has now; from here on its peaks are carried to ``peak``."""
    with _counters.lock:
        counter = _counters.of(framework, device)
        figures = _read(framework, device, counter)
        if reset and figures.peak_allocated_bytes is not None:
            framework.reset_peaks(device)
            counter.last_peak = None  # another thread may have freed meanwhile: what the counter says now is unknown
        counter.waiting.append(peak)
        return figures


def end(framework: Counters, device: int, peak: PeakOf) -> Figures:
    """What a device has now; ``peak`` has had its last."""
    with _counters.lock:
        counter = _counters.of(framework, device)
        try:
            return _read(framework, device, counter)
        finally:
            counter.waiting = [waiting for waiting in counter.waiting if waiting is not peak]


def current(framework: Counters, device: int) -> Figures:
    """What a device has now; its peaks are carried to all who wait for them."""
    with _counters.lock:
        return _read(framework, device, _counters.of(framework, device))


def peaks(device: int | None = None) -> Peaks:
    """Return the device's peaks in bytes as if no region had been measured; None: the current device.

    ``vram.monitor`` resets PyTorch's peak counters when a region begins, so ``torch.cuda.max_memory_allocated()`` counts from
    there. This function returns the maximum since the start of the program, or since the program reset its counters. Limitation: a
    reset by the program is noticed only if the counter is smaller afterwards; if it has grown beyond its earlier value by then, the
    older peak stays. Without a GPU both are None. May be called from any thread.

    >>> import vram
    >>> vram.peaks().allocated_bytes is None  # where there is no GPU
    True
    """
    framework = used_framework()
    number = device if device is not None or framework is None else framework.current_device()
    if framework is None or number is None or number not in framework.devices():
        return Peaks(None, None)
    with _counters.lock:
        counter = _counters.of(framework, number)
        _read(framework, number, counter)
        return Peaks(counter.user.allocated, counter.user.reserved)

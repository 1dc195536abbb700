"""An open region: the figures at its beginning, and the Measurement at its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable

from vram._frameworks import Figures, Framework, used_framework
from vram._texts import tr
from vram.monitoring import _peaks
from vram.monitoring._measurement import DeviceUse, Measurement


@dataclass
class _Begun:
    """A device at the beginning."""

    figures: Figures
    peak: _peaks.PeakOf = field(default_factory=_peaks.PeakOf)


class Region:
    """The region of ``with vram.monitor(…) as region``. ``region.result`` is None until the end, then a Measurement.

    It stays None if ``every=N`` skipped this use. If another thread or task than the one that began it ends it, the
    monitor's latest open region ends.

    >>> import vram
    >>> with vram.monitor("load") as region:
    ...     assert region.result is None
    >>> region.result.name
    'load'
    """

    def __init__(self, name: str, call: int) -> None:
        self.name = name
        self.call = call
        self.result: Measurement | None = None
        self._framework: Framework | None = None
        self._begun: dict[int, _Begun] = {}
        self._uses: list[DeviceUse] = []
        self._failure: str | None = None
        self._resets = self._synchronizes = False
        self._started_ns = self._began_ns = 0

    def begin(self, synchronize: bool, reset_peaks: bool) -> None:
        self._synchronizes, self._resets = synchronize, reset_peaks
        framework = self._framework = used_framework()
        for device in framework.devices() if framework else ():
            self._guarded(self._begin_device, device)
        self._started_ns = time.time_ns()
        self._began_ns = time.perf_counter_ns()

    def end(self, error: BaseException | None) -> Measurement:
        framework = self._framework
        for device in self._begun:
            self._guarded(self._synchronize, device)
        duration_ns = time.perf_counter_ns() - self._began_ns
        for device in self._devices():
            self._guarded(self._end_device, device)
        self.result = Measurement(
            name=self.name,
            call=self.call,
            started_ns=self._started_ns,
            duration_ns=duration_ns,
            is_synchronized=self._synchronizes and bool(self._begun),
            error=None if error is None else type(error).__name__,
            devices=tuple(self._uses),
            unknown_reason=None if self._uses else self._failure or _unknown_reason(framework),
        )
        return self.result

    def _guarded(self, step: Callable[[Framework, int], None], device: int) -> None:
        """Run a step so that a failing device hides neither the program's own error nor its result."""
        framework = self._framework
        try:
            if framework is not None:
                step(framework, device)
        except Exception as error:
            self._failure = self._failure or f"GPU {device} failed: {type(error).__name__}: {error}"

    def _devices(self) -> list[int]:
        """Return the devices of the beginning, and those that the region was the first to use."""
        return sorted({*self._begun, *self._framework.devices()}) if self._framework else []

    def _begin_device(self, framework: Framework, device: int) -> None:
        self._synchronize(framework, device)
        peak = _peaks.PeakOf()
        self._begun[device] = _Begun(_peaks.begin(framework, device, peak, self._resets), peak)

    def _synchronize(self, framework: Framework, device: int) -> None:
        if self._synchronizes:
            framework.synchronize(device)

    def _end_device(self, framework: Framework, device: int) -> None:
        use = self._use(framework, device)
        if use is not None:
            self._uses.append(use)

    def _use(self, framework: Framework, device: int) -> DeviceUse | None:
        """Return the use of a device; None if the program does not use it."""
        begun = self._begun.get(device) or _Begun(Figures(0, 0, 0, 0))
        now = _peaks.end(framework, device, begun.peak)
        if device not in self._begun:
            begun.peak.take(now)
        if not (now.peak_reserved_bytes or begun.figures.reserved_bytes) and device != framework.current_device():
            return None
        floor = Figures() if self._resets or device not in self._begun else begun.figures
        return DeviceUse(
            device=device,
            allocated_bytes=now.allocated_bytes,
            reserved_bytes=now.reserved_bytes,
            allocated_delta_bytes=_minus(now.allocated_bytes, begun.figures.allocated_bytes),
            reserved_delta_bytes=_minus(now.reserved_bytes, begun.figures.reserved_bytes),
            peak_allocated_bytes=_raised(begun.peak.allocated, floor.peak_allocated_bytes),
            peak_reserved_bytes=_raised(begun.peak.reserved, floor.peak_reserved_bytes),
        )


def _minus(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _raised(peak: int | None, before: int | None) -> int | None:
    """Return a peak that was not reset only if it exceeded the earlier one, since only then is it the region's."""
    return peak if peak is None or before is None or peak > before else None


def _unknown_reason(framework: Framework | None) -> str:
    if framework is None:
        return tr("no framework that vram knows is imported")
    return tr("{} uses no GPU").format(framework.name)

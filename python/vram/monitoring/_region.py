"""An open region: the figures at its beginning, and the Measurement at its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Callable

from vram._frameworks import COUNTERS, Figures, Framework, used_framework
from vram._texts import tr
from vram.monitoring import _driver, _peaks
from vram.monitoring._measurement import DeviceUse, Measurement


@dataclass
class _Begun:
    """A device at the beginning."""

    figures: Figures
    peak: _peaks.PeakOf = field(default_factory=_peaks.PeakOf)
    driver: _driver.DriverUse = _driver.UNKNOWN_USE


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
        self._resets = self._synchronizes = self._asks_driver = False
        self._contexts: set[int] = set()  # devices that the process used at the beginning, whichever library did
        self._driver_begun: dict[int, _driver.DriverUse] = {}  # without a framework
        self._started_ns = self._began_ns = 0

    def begin(self, synchronize: bool, reset_peaks: bool, driver: bool) -> None:
        self._synchronizes, self._resets, self._asks_driver = synchronize, reset_peaks, driver
        framework = self._framework = used_framework()
        if driver:
            self._contexts = set(_driver.devices_in_use())
        for device in framework.devices() if framework else ():
            self._guarded(self._begin_device, device)
        if driver and not self._begun:  # CuPy, say, or a framework that has not begun
            self._driver_begun = {device: _driver.use_of(device) for device in self._contexts}
        self._started_ns = time.time_ns()
        self._began_ns = time.perf_counter_ns()

    def end(self, error: BaseException | None) -> Measurement:
        framework = self._framework
        for device in self._begun:
            self._guarded(self._synchronize, device)
        duration_ns = time.perf_counter_ns() - self._began_ns
        for device in self._devices():
            self._guarded(self._end_device, device)
        if self._asks_driver and not self._uses:
            self._uses = [self._use_of_driver(device) for device in _driver.devices_in_use()]
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
            self._failure = self._failure or tr("GPU {} failed: {}: {}").format(device, type(error).__name__, error)

    def _devices(self) -> list[int]:
        """Return the devices of the beginning, and those that the region was the first to use."""
        return sorted({*self._begun, *self._framework.devices()}) if self._framework else []

    def _begin_device(self, framework: Framework, device: int) -> None:
        self._synchronize(framework, device)
        peak = _peaks.PeakOf()
        driver = self._driver_use(framework, device)
        self._begun[device] = _Begun(_peaks.begin(framework, device, peak, self._resets), peak, driver)

    def _driver_use(self, framework: Framework, device: int) -> _driver.DriverUse:
        return _driver.use_of(device, framework.pci_id(device)) if self._asks_driver else _driver.UNKNOWN_USE

    def _driver_before(self, device: int) -> _driver.DriverUse:
        """Return what the driver counted at the beginning; a process without a context on the device had nothing."""
        if device in self._begun:
            return self._begun[device].driver
        if device in self._driver_begun:
            return self._driver_begun[device]
        return _driver.UNKNOWN_USE if device in self._contexts else _driver.DriverUse(process_bytes=0)

    def _use_of_driver(self, device: int) -> DeviceUse:
        """Return the use of a device of which no framework counts the memory."""
        return DeviceUse(device=device, **self._driver_figures(device, _driver.use_of(device)))

    def _driver_figures(self, device: int, now: _driver.DriverUse) -> dict[str, int | None]:
        before = self._driver_before(device)
        return {
            "process_bytes": now.process_bytes,
            "process_delta_bytes": _minus(now.process_bytes, before.process_bytes),
            "device_used_bytes": now.device_bytes,
            "device_used_delta_bytes": _minus(now.device_bytes, before.device_bytes),
        }

    def _synchronize(self, framework: Framework, device: int) -> None:
        if self._synchronizes:
            framework.synchronize(device)

    def _end_device(self, framework: Framework, device: int) -> None:
        use = self._use(framework, device)
        if use is not None:
            self._uses.append(use)

    def _use(self, framework: Framework, device: int) -> DeviceUse | None:
        """Return the use of a device; None if the program does not use it."""
        begun = self._begun.get(device) or _Begun(Figures(0, 0, 0, 0, 0, 0, 0, 0))
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
            **self._driver_figures(device, self._driver_use(framework, device)),
            **{name: _grown(getattr(now, name), getattr(begun.figures, name)) for name in COUNTERS},
        )


def _minus(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


def _grown(now: int | None, before: int | None) -> int | None:
    """Return how much a counter grew; None if it is unknown or was reset in the region."""
    grown = _minus(now, before)
    return None if grown is None or grown < 0 else grown


def _raised(peak: int | None, before: int | None) -> int | None:
    """Return a peak that was not reset only if it exceeded the earlier one, since only then is it the region's."""
    return peak if peak is None or before is None or peak > before else None


def _unknown_reason(framework: Framework | None) -> str:
    if framework is None:
        return tr("no framework that vram knows is imported")
    return tr("{} uses no GPU").format(framework.name)

"""The measurement of a region: plain values that sinks receive. Unknown is None, never zero."""

from __future__ import annotations

from dataclasses import dataclass

from vram._sizes import format_size
from vram._texts import tr


def fragmentation_of(allocated_bytes: int | None, reserved_bytes: int | None) -> float | None:
    """Return the fraction of reserved memory that is not allocated; None if unknown, or nothing is reserved."""
    if allocated_bytes is None or not reserved_bytes:
        return None
    return 1 - allocated_bytes / reserved_bytes


@dataclass(frozen=True)
class DeviceUse:
    """One device over a region, in bytes. None: the framework does not report the value.

    ``allocated_bytes`` and ``reserved_bytes`` are the framework's at the end, the deltas are end minus beginning, and
    the peaks are the largest values within the region. ``process_bytes`` is what the driver counts for this process:
    tensors, the allocator's cache, contexts, and what other libraries (CuPy, NCCL, extensions) allocated.
    ``device_used_bytes`` is used by all processes. The ``num_…`` figures are those of the region: PyTorch's requests
    that had to empty the cache and try again, its out-of-memory errors, and its requests to the driver for memory and
    to take it back. All are those of the whole process, including its other threads.

    >>> DeviceUse(device=0, allocated_bytes=6 << 30, reserved_bytes=8 << 30).fragmentation
    0.25
    """

    device: int
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    allocated_delta_bytes: int | None = None
    reserved_delta_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    process_bytes: int | None = None
    process_delta_bytes: int | None = None
    device_used_bytes: int | None = None
    device_used_delta_bytes: int | None = None
    num_alloc_retries: int | None = None
    num_ooms: int | None = None
    num_device_alloc: int | None = None
    num_device_free: int | None = None

    @property
    def fragmentation(self) -> float | None:
        """The fraction of reserved memory that is not allocated, 1 - allocated / reserved; None if unknown."""
        return fragmentation_of(self.allocated_bytes, self.reserved_bytes)

    def __str__(self) -> str:
        words = [*self._allocator_words(), *self._driver_words()]
        if not words:
            return tr("GPU {}: memory unknown").format(self.device)
        return tr("GPU {}: {}").format(self.device, tr(", ").join(words))

    def _allocator_words(self) -> list[str]:
        if self.allocated_bytes is None:
            return []
        now = tr("now {}").format(format_size(self.allocated_bytes))
        if self.reserved_bytes is not None:
            now += tr(" of {} reserved").format(format_size(self.reserved_bytes))
        if self.fragmentation is not None:
            now += tr(" ({:.0%} unused)").format(self.fragmentation)
        peak = self.peak_allocated_bytes
        delta = [] if self.allocated_delta_bytes is None else [_signed(self.allocated_delta_bytes)]
        words = [*delta, now, tr("peak {}").format(tr("unknown") if peak is None else format_size(peak))]
        if self.num_alloc_retries:
            words.append(tr("retries {}").format(self.num_alloc_retries))
        if self.num_ooms:
            words.append(tr("OOMs {}").format(self.num_ooms))
        return words

    def _driver_words(self) -> list[str]:
        """Say the process's figure; where it is unknown, that of the device, which at least has its change."""
        for size, delta, text in (
            (self.process_bytes, self.process_delta_bytes, tr("this process by the driver {}")),
            (self.device_used_bytes, self.device_used_delta_bytes, tr("all processes by the driver {}")),
        ):
            if size is not None:
                return [text.format(format_size(size)) + ("" if delta is None else f" ({_signed(delta)})")]
        return []


def _signed(size_bytes: int) -> str:
    return f"{'+' if size_bytes > 0 else ''}{format_size(size_bytes)}"


@dataclass(frozen=True)
class Measurement:
    """A region that has ended. ``str()`` is the line that is logged.

    ``duration_ns`` is host time (``time.perf_counter_ns``); it includes unfinished work of a GPU only if
    ``is_synchronized``. ``started_ns`` is wall-clock time since 1970. ``call`` counts the uses of the monitor,
    including those that were not measured. ``error`` is the type of the exception that ended the region. ``devices``
    is empty if no GPU is known; ``unknown_reason`` is then the reason.

    >>> print(Measurement(name="step", call=1, started_ns=0, duration_ns=12_300_000, unknown_reason="no GPU in use"))
    step: 12.3 ms; GPU memory unknown: no GPU in use
    """

    name: str
    call: int
    started_ns: int
    duration_ns: int
    is_synchronized: bool = False
    error: str | None = None
    devices: tuple[DeviceUse, ...] = ()
    unknown_reason: str | None = None

    @property
    def peak_bytes(self) -> int | None:
        """The largest peak of a device's allocated bytes; None: unknown."""
        return max(
            (use.peak_allocated_bytes for use in self.devices if use.peak_allocated_bytes is not None), default=None
        )

    def __str__(self) -> str:
        words = [f"{self.name}: {_format_duration(self.duration_ns)}"]
        if self.error is not None:
            words[0] += tr(", ended by {}").format(self.error)
        words += [str(use) for use in self.devices]
        if not self.devices:
            words.append(tr("GPU memory unknown: {}").format(self.unknown_reason))
        return tr("; ").join(words)


def _format_duration(duration_ns: int) -> str:
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)):
        value = duration_ns / size
        if value >= 1:
            return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"
    return f"{duration_ns} ns"

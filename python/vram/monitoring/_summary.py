"""``vram.summary()``: what PyTorch's allocator holds in this process, and how well it manages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vram._arguments import MAX_INT32, require_integers
from vram._frameworks import COUNTERS, used_framework
from vram._frameworks._torch import TorchFramework, is_private
from vram._sizes import format_size
from vram._texts import columns_of, tr, tr_later
from vram.monitoring import _driver, _peaks
from vram.monitoring._measurement import fragmentation_of

# The physical pages of expandable segments, of which only whole ones go back to the driver.
_PAGE_BYTES = {tr_later("small"): 2 << 20, tr_later("large"): 20 << 20}


@dataclass(frozen=True)
class StreamSummary:
    """The segments of one stream in one pool, in bytes.

    ``pool`` is "small" or "large" (requests up to 1 MiB, and others), and begins with "private" for a pool of a CUDA graph
    or a ``MemPool``. ``releasable_bytes`` is what ``torch.cuda.empty_cache()`` would give back;
    ``largest_free_bytes`` is the largest request that fits without new memory.
    """

    stream: int
    pool: str
    segments: int
    reserved_bytes: int
    allocated_bytes: int
    free_bytes: int
    releasable_bytes: int
    largest_free_bytes: int


@dataclass(frozen=True)
class AllocatorSummary:
    """The allocator of one device, in bytes and counts. None: unknown; ``unknown_reason`` is then the reason.

    ``requested_bytes`` is what the program asked for; ``allocated_bytes`` is that with rounding; ``reserved_bytes`` is
    what the allocator has from the driver. The counts are since the program started, with the meanings of
    ``torch.cuda.memory_stats()``. ``process_bytes`` is what the driver counts for this process, contexts and other
    libraries included. ``streams`` is empty if PyTorch has no segments or was not asked.

    >>> AllocatorSummary(device=0, allocated_bytes=6 << 30, reserved_bytes=8 << 30).fragmentation
    0.25
    """

    device: int | None
    allocated_bytes: int | None = None
    requested_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    num_alloc_retries: int | None = None
    num_ooms: int | None = None
    num_device_alloc: int | None = None
    num_device_free: int | None = None
    process_bytes: int | None = None
    streams: tuple[StreamSummary, ...] = ()
    unknown_reason: str | None = None

    @property
    def fragmentation(self) -> float | None:
        """The fraction of reserved memory that is not allocated, 1 - allocated / reserved; None if unknown."""
        return fragmentation_of(self.allocated_bytes, self.reserved_bytes)

    @property
    def releasable_bytes(self) -> int | None:
        """What ``torch.cuda.empty_cache()`` would give back; None if unknown."""
        return sum(each.releasable_bytes for each in self.streams) if self.streams else None

    @property
    def largest_free_bytes(self) -> int | None:
        """The largest free block; None if unknown."""
        return max((each.largest_free_bytes for each in self.streams), default=None)

    def __str__(self) -> str:
        if self.allocated_bytes is None:
            return tr("allocator unknown: {}").format(self.unknown_reason)
        lines = [tr("GPU {}: PyTorch's allocator in this process").format(self.device)]
        rows = [(name, text) for name, text in self._rows() if text]
        width = max(columns_of(name) for name, _ in rows)
        lines += [f"  {name}{' ' * (width - columns_of(name))}  {text}" for name, text in rows]
        return "\n".join(lines + _stream_lines(self.streams))

    def _rows(self) -> list[tuple[str, str]]:
        return [
            (tr("allocated"), _with_peak(self.allocated_bytes, self.peak_allocated_bytes)),
            (tr("requested"), self._requested()),
            (tr("reserved"), _with_peak(self.reserved_bytes, self.peak_reserved_bytes)),
            (tr("unused"), self._unused()),
            (tr("retries"), _count(self.num_alloc_retries, tr("the driver had no memory, so the cache was emptied"))),
            (tr("OOM errors"), _count(self.num_ooms, "")),
            (tr("driver calls"), self._driver_calls()),
            (tr("the driver"), self._process()),
        ]

    def _requested(self) -> str:
        if self.requested_bytes is None:
            return ""
        rounding = (self.allocated_bytes or 0) - self.requested_bytes
        return tr("{}; {} more are allocated, by rounding").format(_size(self.requested_bytes), _size(rounding))

    def _unused(self) -> str:
        if self.fragmentation is None or self.allocated_bytes is None or self.reserved_bytes is None:
            return ""
        unused = _size(self.reserved_bytes - self.allocated_bytes)
        text = tr("{} ({:.0%} of reserved)").format(unused, self.fragmentation)
        if self.releasable_bytes is None:
            return text
        return tr("{}; torch.cuda.empty_cache() would give back {}; largest free block {}").format(
            text, _size(self.releasable_bytes), _size(self.largest_free_bytes)
        )

    def _driver_calls(self) -> str:
        if self.num_device_alloc is None or self.num_device_free is None:
            return ""
        return tr("{:,} for memory, {:,} to give it back").format(self.num_device_alloc, self.num_device_free)

    def _process(self) -> str:
        if self.process_bytes is None:
            return ""
        rest = self.process_bytes - (self.reserved_bytes or 0)
        if rest <= 0:
            return tr("counts {} for this process").format(_size(self.process_bytes))
        return tr("counts {} for this process, {} of it outside of PyTorch's allocator").format(
            _size(self.process_bytes), _size(rest)
        )


def summary(device: int | None = None, streams: bool = True) -> AllocatorSummary:
    """Return the figures of PyTorch's allocator on a device, also without vram's pool; ``str()`` is a page of text.

    It has what ``torch.cuda.memory_summary()`` is read for: memory in use and its peak, what is unused and how much of
    it would come back, retries after an emptied cache, out-of-memory errors, and calls of the driver. With vram's pool
    the figures are the pool's, too. Any thread may call this.

    Args:
        device: The device's number. None: the current device.
        streams: Also reads PyTorch's list of segments, which takes about a millisecond for each thousand blocks.

    Returns:
        The summary. Without a GPU, or without PyTorch, its figures are None.

    Raises:
        ValueError: `device` is negative or not a device's number.

    >>> import vram
    >>> print(vram.summary())  # doctest: +ELLIPSIS
    allocator unknown: ...
    """
    require_integers(0, MAX_INT32, device=device)
    framework = used_framework()
    if not isinstance(framework, TorchFramework):
        return AllocatorSummary(device, unknown_reason=tr("PyTorch is not imported"))
    number = framework.current_device() if device is None else device
    if number is None or number not in framework.devices():
        if number is None:
            return AllocatorSummary(None, unknown_reason=tr("{} uses no GPU").format("PyTorch"))
        return AllocatorSummary(number, unknown_reason=tr("PyTorch uses no memory of GPU {}").format(number))
    figures = _peaks.current(framework, number)
    kept = _peaks.peaks(number)
    return AllocatorSummary(
        device=number,
        allocated_bytes=figures.allocated_bytes,
        requested_bytes=framework.requested_bytes(number),
        reserved_bytes=figures.reserved_bytes,
        peak_allocated_bytes=kept.allocated_bytes,
        peak_reserved_bytes=kept.reserved_bytes,
        **{name: getattr(figures, name) for name in COUNTERS},
        process_bytes=_driver.use_of(number, framework.pci_id(number)).process_bytes,
        streams=_summaries(framework.segments(number)) if streams else (),
    )


@dataclass
class _Sum:
    """The sum over the segments of one stream and pool."""

    reserved: int = 0
    allocated: int = 0
    releasable: int = 0
    free: list[int] = field(default_factory=lambda: [0])
    segments: int = 0

    def add(self, segment: dict[str, Any]) -> None:
        free = [(block_start, size) for block_start, size, is_free in _blocks(segment) if is_free]
        self.segments += 1
        self.reserved += segment["total_size"]
        self.allocated += segment["allocated_size"]
        self.free += [size for _, size in free]
        self.releasable += _releasable(segment, free)


def _summaries(segments: Iterable[dict[str, Any]]) -> tuple[StreamSummary, ...]:
    sums: dict[tuple[int, str], _Sum] = {}
    for segment in segments:
        kind = str(segment["segment_type"])
        pool = f"private {kind}" if is_private(segment) else kind
        sums.setdefault((int(segment["stream"]), pool), _Sum()).add(segment)
    return tuple(
        StreamSummary(
            stream, pool, each.segments, each.reserved, each.allocated, sum(each.free), each.releasable, max(each.free)
        )
        for (stream, pool), each in sorted(sums.items())
    )


def _blocks(segment: dict[str, Any]) -> list[tuple[int, int, bool]]:
    """Return the offset in the segment, the size and whether it is free, of each block. Versions before 2.1 have no addresses."""
    found, offset = [], 0
    for block in segment["blocks"]:
        found.append((offset, int(block["size"]), block["state"] == "inactive"))
        offset += int(block["size"])
    return found


def _releasable(segment: dict[str, Any], free: list[tuple[int, int]]) -> int:
    """Return what emptying the cache gives back: a segment without a block in use, or whole pages of an expandable one.

    A private pool keeps its memory as long as its graph or ``MemPool`` lives.
    """
    if is_private(segment):
        return 0
    if not segment.get("is_expandable"):
        return int(segment["total_size"]) if sum(size for _, size in free) == segment["total_size"] else 0
    page = _PAGE_BYTES.get(segment["segment_type"], _PAGE_BYTES["large"])
    return sum(max(0, (start + size) // page * page - -(-start // page) * page) for start, size in free)


def _size(size_bytes: int | None) -> str:
    return tr("unknown") if size_bytes is None else format_size(size_bytes)


def _with_peak(size_bytes: int | None, peak_bytes: int | None) -> str:
    return tr("{}, at its peak {}").format(_size(size_bytes), _size(peak_bytes))


def _count(count: int | None, what: str) -> str:
    if count is None:
        return ""
    return f"{count:,}" + (f" ({what})" if what and count else "")


def _stream_lines(streams: tuple[StreamSummary, ...]) -> list[str]:
    if not streams:
        return []
    rows: list[tuple[str, ...]] = [
        (
            tr("stream"),
            tr("pool"),
            tr("segments"),
            tr("reserved"),
            tr("allocated"),
            tr("free"),
            tr("releasable"),
            tr("largest free"),
        )
    ]
    for each in streams:
        sizes = (
            each.reserved_bytes,
            each.allocated_bytes,
            each.free_bytes,
            each.releasable_bytes,
            each.largest_free_bytes,
        )
        name = str(each.stream) if each.stream < 1 << 16 else f"{each.stream:#x}"  # a handle
        rows.append((name, _pool_text(each.pool), f"{each.segments:,}", *map(format_size, sizes)))
    widths = [max(map(columns_of, column)) for column in zip(*rows)]
    return ["  " + "  ".join(_cell(text, widths[i], is_left=i < 2) for i, text in enumerate(row)) for row in rows]


def _pool_text(pool: str) -> str:
    kind = pool.removeprefix("private ")
    return tr(kind) if kind == pool else tr("private {}").format(tr(kind))


def _cell(text: str, width: int, *, is_left: bool) -> str:
    space = " " * (width - columns_of(text))
    return text + space if is_left else space + text

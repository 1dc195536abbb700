"""``vram.load()``: a recording and its report as Python values."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeVar

from vram._arguments import require_integers
from vram._error import VramError
from vram._sizes import format_size, parse_size
from vram._texts import tr
from vram.reports._native import NativeReport
from vram.reports._page import make_page
from vram.reports._table import ReportTable
from vram.reports._view import ReportView

_DEFAULT_TOP = 50
_DEFAULT_PAGE = "8MiB"
_Value = TypeVar("_Value")


class _Source(NamedTuple):
    """What a report was loaded from."""

    path: str
    max_bytes: int  # 0: the default
    identity: tuple[int, int, int, int] | None


@dataclass(frozen=True)
class ReportPeak:
    """The peaks of a device's memory, in bytes, each at its own moment.

    ``requested_bytes``: what tensors requested. ``allocated_bytes``: blocks in use. ``active_bytes``: also blocks that are
    freed but still used by a stream. ``reserved_bytes``: memory taken from the device. ``utilization`` is requested /
    reserved; None: nothing was reserved. ``time_ns``, ``event`` and ``step`` are the moment of the requested peak.
    """

    requested_bytes: int
    allocated_bytes: int
    active_bytes: int
    reserved_bytes: int
    utilization: float | None
    time_ns: int
    event: int
    step: int | None
    reserved_time_ns: int
    reserved_event: int
    reserved_step: int | None


@dataclass(frozen=True)
class Holder:
    """A group of blocks that were alive at one moment.

    ``by`` is the grouping ("user_frame", "stack", "scope", "size", ...), ``block_bytes`` includes rounding, and
    ``oldest_ns`` is the allocation time of the oldest block. ``stack`` is the stack, innermost frame first, if
    ``by`` is "stack".
    """

    by: str
    name: str
    requested_bytes: int
    block_bytes: int
    count: int
    largest_bytes: int
    oldest_ns: int
    before_recording: bool
    stack: list[dict[str, Any]]


@dataclass(frozen=True)
class ReportStep:
    """A step of the program: its events are first_event to first_event + event_count - 1."""

    index: int
    name: str
    first_event: int
    event_count: int
    begin_ns: int
    end_ns: int
    peak_requested_bytes: int
    peak_reserved_bytes: int
    peak_event: int
    end_requested_bytes: int


@dataclass(frozen=True)
class Finding:
    """A result of the report: ``detail`` is the evidence, ``advice`` what to do. docs/json.md lists the kinds.

    ``line`` is the line of code to change. The saved bytes are what the peaks of requested and reserved memory lose if the recording is
    replayed with the change made (docs/findings.md). None: unknown, or not replayed.
    """

    kind: str
    bytes: int
    title: str
    detail: str
    advice: str
    line: str | None = None
    peak_saved_bytes: int | None = None
    reserved_saved_bytes: int | None = None


class DeviceReport:
    """The report of one device of a recording."""

    def __init__(self, native: NativeReport, index: int, document: Mapping[str, Any]) -> None:
        self._native = native
        self._index = index
        self._document = document

    @property
    def device(self) -> int:
        """The device's number."""
        return int(self._document["device"])

    @property
    def kind(self) -> str:
        """The kind of memory: "gpu", or "host" for pinned host memory."""
        return str(self._document["kind"])

    @property
    def confidence(self) -> str:
        """How reliable the recording is: "exact", "consistent", "unchecked", "truncated", "overflow" or "contradiction"."""
        return str(self._document["confidence"]["word"])

    @property
    def peak(self) -> ReportPeak:
        """The peaks of requested, allocated, active and reserved bytes."""
        return _made(ReportPeak, self._document["peak"])

    @property
    def steps(self) -> tuple[ReportStep, ...]:
        """The steps of the program; empty if none were found."""
        return tuple(_made(ReportStep, step) for step in self._document["steps"]["items"])

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, the most important first."""
        return tuple(_made(Finding, finding) for finding in self._document["findings"])

    def state(self, at: str = "peak", *, top: int | None = _DEFAULT_TOP) -> dict[str, Any]:
        """Return everything about one moment: the object ``state`` of docs/json.md.

        Moments other than the peak are computed from the events, in less time than load() takes.

        Args:
            at: "peak", "step:12" (the peak of this step), "event:1234", "1.5s", "250ms", "oom" or "oom:1".
            top: The number of holders in each breakdown. None: all.

        Raises:
            ValueError: `at` is invalid, or the recording has no such moment; `top` is below 1.
        """
        state: dict[str, Any] = json.loads(self._native.state(self._index, at, _checked_top(top)))
        return state

    def holders(self, at: str = "peak", *, by: str | None = None, top: int | None = _DEFAULT_TOP) -> tuple[Holder, ...]:
        """Return who held memory at a moment, the largest first.

        Args:
            at: As for state().
            by: The grouping: "user_frame", "stack", "scope", "size", "stream", "age", "pool" or, if there are names,
                "category". None: the grouping that ``vram report`` shows.
            top: The number of holders. None: all.

        Raises:
            ValueError: As for state(), or there is no such grouping.
        """
        shown = self._document["holders"]
        grouping = by if by is not None else shown[0]["by"] if shown else "user_frame"
        breakdowns = {breakdown["by"]: breakdown for breakdown in self.state(at, top=top)["breakdowns"]}
        if grouping not in breakdowns:
            raise ValueError(
                tr("there is no grouping {!r}: expected one of {}").format(grouping, ", ".join(breakdowns))
            )
        return tuple(_made(Holder, holder) for holder in breakdowns[grouping]["holders"])

    def __repr__(self) -> str:
        return f"<vram.DeviceReport {self._title()}>"

    def _title(self) -> str:
        name = tr("pinned host memory") if self.kind == "host" else f"GPU {self.device}"
        peak = self.peak
        requested, reserved = format_size(peak.requested_bytes), format_size(peak.reserved_bytes)
        count = len(self.findings)
        findings = (tr("{} finding") if count == 1 else tr("{} findings")).format(count)
        return tr("{}: peak {} requested, {} reserved, {}").format(name, requested, reserved, findings)


class Report:
    """A recording and its report, created by load(). Any thread may use it.

    ``peak``, ``steps``, ``findings``, ``state()`` and ``holders()`` are those of ``device``.
    """

    def __init__(self, native: NativeReport, source: _Source) -> None:
        self._native = native
        self._source = source
        self._document: dict[str, Any] = json.loads(native.document(_DEFAULT_TOP))
        devices = self._document["devices"]
        self._devices = tuple(DeviceReport(native, index, device) for index, device in enumerate(devices))

    @property
    def path(self) -> str:
        """The file."""
        return str(self._document["path"])

    @property
    def format(self) -> str:
        """The format of the file, for people."""
        return str(self._document["format"])

    @property
    def settings(self) -> dict[str, str]:
        """The allocator's settings, as recorded."""
        return dict(self._document["settings"])

    @property
    def devices(self) -> tuple[DeviceReport, ...]:
        """The devices in the recording."""
        return self._devices

    @property
    def device(self) -> DeviceReport:
        """The device with the largest peak."""
        main = (self._document["device"], self._document["kind"])
        return next(device for device in self._devices if (device.device, device.kind) == main)

    @property
    def peak(self) -> ReportPeak:
        """The peaks of requested, allocated, active and reserved bytes."""
        return self.device.peak

    @property
    def steps(self) -> tuple[ReportStep, ...]:
        """The steps of the program; empty if none were found."""
        return self.device.steps

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, the most important first."""
        return self.device.findings

    def state(self, at: str = "peak", *, top: int | None = _DEFAULT_TOP) -> dict[str, Any]:
        """Return everything about one moment of the main device; see DeviceReport.state()."""
        return self.device.state(at, top=top)

    def holders(self, at: str = "peak", *, by: str | None = None, top: int | None = _DEFAULT_TOP) -> tuple[Holder, ...]:
        """Return who held memory of the main device at a moment; see DeviceReport.holders()."""
        return self.device.holders(at, by=by, top=top)

    def to_dict(self, *, top: int | None = _DEFAULT_TOP) -> dict[str, Any]:
        """Return the whole report: the document ``vram.report/1`` that ``vram report --json`` prints (docs/json.md).

        Args:
            top: The number of holders in each breakdown. None: all.

        Raises:
            ValueError: `top` is below 1.
        """
        document: dict[str, Any] = json.loads(self._native.document(_checked_top(top)))
        return document

    def table(self, name: str) -> ReportTable:
        """Return a table for Polars, DuckDB and other libraries that read Arrow; docs/load.md lists the columns.

        Args:
            name: "runs", "devices", "steps", "holders", "findings", "timeline", "allocations" or "events".

        Raises:
            ValueError: There is no such table.
        """
        return ReportTable(self._native, name)

    def to_arrow(self, table: str = "allocations") -> Any:
        """Return a table as a ``pyarrow.Table``; see table() and ReportTable.to_arrow()."""
        return self.table(table).to_arrow()

    def to_pandas(self, table: str = "allocations") -> Any:
        """Return a table as a ``pandas.DataFrame``; see table() and ReportTable.to_pandas()."""
        return self.table(table).to_pandas()

    def __repr__(self) -> str:
        return f"<vram.Report {self.path!r}, {'; '.join(device._title() for device in self._devices)}>"

    def to_html(self, *, max_size: int | str | None = None) -> str:
        """Return the page of ``vram report --html``: one document that loads nothing from a network.

        Runs the program, which reads the file again.

        Args:
            max_size: The maximum size of the page, "64MiB" or a number of bytes. None: no limit.

        Raises:
            ValueError: `max_size` is invalid.
            VramError: The program is missing or failed, the page is larger than `max_size`, or the file has changed since
                load().
        """
        max_bytes = sys.maxsize if max_size is None else parse_size(max_size)
        events = sum(int(device["events"]) for device in self._document["devices"])
        if events > max_bytes:  # a page has at least a byte for each event
            raise VramError(
                tr("the page of {:,} events is larger than the limit of {}").format(events, format_size(max_bytes))
            )
        source = self._source
        if _identity(source.path) != source.identity:
            raise VramError(tr("the file has changed since vram.load(); load it again"))
        page = make_page(source.path, max_bytes, max_recording_bytes=source.max_bytes or None)
        return page.decode(errors="replace")

    def show(self, *, height: int = 720, max_size: int | str = _DEFAULT_PAGE) -> ReportView:
        """Return the report as a notebook shows it: the page of to_html() in a frame. A report by itself looks the same.

        The page becomes part of the notebook's file. One that is larger than `max_size` is replaced by a summary with
        the commands that open it.

        Args:
            height: The height of the frame, in pixels.
            max_size: The maximum size of the page, "64MiB" or a number of bytes.

        Raises:
            ValueError: `height` or `max_size` is invalid.
        """
        require_integers(1, height=height)
        return ReportView(self, height, parse_size(max_size))

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def load(path: str | os.PathLike[str], *, max_size: int | str | None = None) -> Report:
    """Read a recording and explain it, as ``vram report`` does. Nothing in the file is executed.

    Takes as long as ``vram report``, and releases the GIL meanwhile. A truncated recording is no error: the report covers
    what precedes the damage.

    Args:
        path: A ``.vtrace`` file or a PyTorch snapshot, which may be compressed with gzip, xz or zstd.
        max_size: The maximum size of the decompressed recording, "20GiB" or a number of bytes. None: 1 TiB.

    Raises:
        FileNotFoundError: There is no such file.
        OSError: The file cannot be read.
        ValueError: `max_size` is invalid.
        VramError: The file is no recording, damaged from its beginning on, or larger than `max_size`; or vram's library is
            missing.

    >>> import vram, pickle, tempfile, os
    >>> segment = {"action": "segment_alloc", "addr": 2 << 20, "size": 2 << 20, "stream": 0}
    >>> block = {"action": "alloc", "addr": 2 << 20, "size": 1 << 20, "stream": 0}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "run.pickle")  # as torch.cuda.memory._dump_snapshot() writes it
    ...     with open(path, "wb") as file:
    ...         pickle.dump({"segments": [], "device_traces": [[segment, block]]}, file)
    ...     report = vram.load(path)
    >>> report.peak.requested_bytes, report.peak.reserved_bytes
    (1048576, 2097152)
    """
    max_bytes = 0 if max_size is None else parse_size(max_size)
    identity = _identity(path)  # before it is read: a file that changes meanwhile is recognized
    return Report(NativeReport(path, max_bytes), _Source(os.path.abspath(path), max_bytes, identity))


def _identity(path: str | os.PathLike[str]) -> tuple[int, int, int, int] | None:
    """Return what changes if the file is replaced or written; None: there is no file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _checked_top(top: int | None) -> int:
    """Return the library's number for `top`, which is 0 for all."""
    require_integers(1, top=top)
    return 0 if top is None else top


def _made(kind: type[_Value], values: Mapping[str, Any]) -> _Value:
    """Return an object of a dataclass from an object of the document, which may have more members."""
    return kind(**{field.name: values[field.name] for field in fields(kind)})  # type: ignore[arg-type]

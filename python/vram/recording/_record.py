"""``vram.record()``: records GPU memory into a file until it is stopped."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import threading
from pathlib import Path
from types import TracebackType

from vram._arguments import require_one_of
from vram._error import VramError
from vram._library import last_error, library, sized
from vram._prototypes import OK, RecordCounts, RecordOptions
from vram._sizes import parse_limit
from vram._texts import tr
from vram.recording import _children, _flight, _taps
from vram.recording._beginning import STACKS, begin
from vram.recording._empty import nothing_recorded
from vram.reports import Report, load

_log = logging.getLogger("vram")


class _State:
    lock = threading.RLock()  # a signal's handler may stop the recording that its thread is about to stop
    running: Recording | None = None


def _renew_lock() -> None:  # another thread may have held it at the fork
    _State.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class Recording:
    """A running or finished recording, created by record(). Any thread may stop it."""

    def __init__(self) -> None:
        self._path = recorded_file() or Path()
        self._counts = (0, 0, 0)
        self._resting: _flight.FlightRecorder | None = None

    @property
    def path(self) -> Path:
        """The file being written. With a size limit, ``NAME.old.vtrace`` next to it contains older events."""
        return self._path

    @property
    def events(self) -> int:
        """The number of events written so far."""
        return self._read()[0]

    @property
    def lost(self) -> int:
        """The number of events discarded because the disk was too slow for too long; normally 0."""
        return self._read()[1]

    @property
    def written_bytes(self) -> int:
        """The bytes written so far, including parts that have been deleted since."""
        return self._read()[2]

    def stop(self) -> None:
        """Stop recording, and wait until everything is in the file. Calling it again has no effect.

        If the program used no GPU memory, a warning says so, with the reason as far as it is known.

        Raises:
            VramError: The recording stopped early, because the file could not be written.
        """
        with _State.lock:
            if _State.running is not self:
                return
            _State.running = None
            try:
                _end()
            finally:
                self._counts = _counts()
                _flight.wake(self._resting)
        if self.events == 0:
            _log.warning("%s", nothing_recorded())

    def report(self) -> Report:
        """Return the report of the finished recording: vram.load() of its file. A notebook shows it.

        Raises:
            VramError: The recording has not been stopped, or its file cannot be read as a recording.
        """
        if _State.running is self:
            raise VramError(tr("the recording is still running; call stop() before report()"))
        return load(self.path)

    def _read(self) -> tuple[int, int, int]:
        return _counts() if _State.running is self else self._counts

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def record(
    path: str | Path = "run.vtrace",
    stacks: str | None = None,
    limit: int | str | None = None,
    *,
    force: bool = False,
) -> Recording:
    """Record GPU memory from now on into a ``.vtrace`` file, for ``vram report``.

    Call stop() on the result, or use it in a ``with`` statement. Records vram's pool and, once torch is imported,
    PyTorch's own allocator. After a kill, the file lacks at most the last 200 ms.

    Args:
        path: The file. One of several ranks (``RANK``, ``WORLD_SIZE``) writes to its own: ``run.rank0.vtrace``. An existing
            recording or report is replaced; pipes and devices are written directly.
        stacks: Records the origin of each request: "python", "native" (C++), or None, which is the cheapest.
        limit: The most disk space to use, "2GiB" or a number of bytes, at least 1 MiB; the latest events are kept.
        force: Replaces any existing file.

    Raises:
        VramError: There is a recording already; the file cannot be created, is being written by another recording, or was
            not written by vram; or PyTorch's allocator cannot be recorded.
        ValueError: `stacks` or `limit` is invalid.

    >>> import vram, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with vram.record(os.path.join(folder, "run.vtrace")) as recording:
    ...         with vram.scope("forward"):
    ...             vram.is_recording()
    ...     recording.lost
    True
    0
    """
    require_one_of(STACKS, stacks=stacks)
    options = sized(
        RecordOptions,
        stacks=STACKS[stacks],
        is_named_by_rank=1,
        replaces_any=int(force),
        limit_bytes=0 if limit is None else parse_limit(limit),
    )
    with _State.lock:
        resting = _flight.rest() if _State.running is None else None
        try:
            _start(os.fsencode(path), options)
        except BaseException:
            _flight.wake(resting)
            raise
        _State.running = recording = Recording()
        recording._resting = resting
    return recording


def _start(path: bytes, options: RecordOptions) -> None:
    if library().vram_record_start(path, ctypes.byref(options)) != OK:
        raise VramError(last_error())
    try:
        begin(with_stacks=bool(options.stacks))
    except BaseException:
        library().vram_record_stop()
        raise


def _end() -> None:
    """End the recording.

    Raises:
        VramError: It stopped early.
    """
    _taps.stop()
    if library().vram_record_stop() != OK:
        raise VramError(tr("the recording has stopped early: {}; what came before is in the file").format(last_error()))


def is_recording() -> bool:
    """Return whether this process is being recorded.

    >>> import vram
    >>> vram.is_recording()
    False
    """
    return bool(library().vram_is_recording())


def record_from_environment(*, requires_driver: bool = False) -> None:
    """Record until the process ends, as the environment specifies, for ``vram run --record``.

    Args:
        requires_driver: Makes a machine without CUDA's driver, which has nothing to record, an error.

    Raises:
        VramError: Recording is impossible.
    """
    if requires_driver:
        _taps.require_driver()
    if library().vram_record_start_as_told() != OK:
        raise VramError(last_error())
    _children.finish_at_exit(_end_in_child)
    begin(with_stacks=bool(os.environ.get("VRAM_RECORD_STACKS")))


def _end_in_child() -> None:
    with contextlib.suppress(VramError):  # there is no one to report it to
        _end()


def finish_recording() -> Path | None:
    """End the recording of record_from_environment() at the end of the process.

    Returns:
        Its file, or the file of another process of the program; None: there was nothing to record.

    Raises:
        VramError: The recording stopped early.
    """
    _end()
    return recorded_file() or file_of_program()


def file_of_program() -> Path | None:
    """Return a file that a process of the program has recorded since its start; None: there is none."""
    requested = Path(os.environ["VRAM_RECORD"])
    since = float(os.environ.get("VRAM_RECORD_SINCE", "0"))
    others = (
        file for file in requested.parent.glob(f"{requested.stem}*{requested.suffix}") if file.stat().st_mtime >= since
    )
    return next(others, None)


def recorded_file() -> Path | None:
    """Return the file of the current or last recording; None: there was none."""
    text = ctypes.create_string_buffer(4096)
    library().vram_record_path(text, len(text))
    return Path(os.fsdecode(text.value)) if text.value else None


def _counts() -> tuple[int, int, int]:
    counts = sized(RecordCounts)
    library().vram_get_record_counts(ctypes.byref(counts))
    return counts.events, counts.lost, counts.file_bytes

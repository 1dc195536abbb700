"""``vram.record()``: records GPU memory events in a file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from pathlib import Path
from types import TracebackType

from vram import _library, _marks
from vram._error import VramError
from vram._library import OK, library
from vram._sizes import parse_limit
from vram.recording import _children, _process, _taps

STACKS = {None: 0, "python": 1, "native": 2}


class _State:
    lock = threading.Lock()
    running: Recording | None = None


class Recording:
    """A recording that runs or has ended; made by record(). May be stopped from any thread."""

    def __init__(self) -> None:
        self._path = recorded_file() or Path()
        self._counts = (0, 0, 0)

    @property
    def path(self) -> Path:
        """The file (if its size is limited, ``NAME.old.vtrace`` beside it has the older events)."""
        return self._path

    @property
    def events(self) -> int:
        """The number of events written so far."""
        return self._read()[0]

    @property
    def lost(self) -> int:
        """The number of events dropped because the disk was too slow; normally 0."""
        return self._read()[1]

    @property
    def written_bytes(self) -> int:
        """Bytes written so far, including those of parts that were removed since."""
        return self._read()[2]

    def stop(self) -> None:
        """Stop, and wait until everything is in the file. Calling it again has no effect.

        Raises:
            VramError: the file could not be written completely.
        """
        with _State.lock:
            if _State.running is not self:
                return
            _State.running = None
            try:
                _end()
            finally:
                self._counts = _counts()

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
    """Record GPU memory events in a ``.vtrace`` file for ``vram report``, until stop() or the end of a ``with``.

    Records the events of vram's pool and, once torch is imported, those of PyTorch's own allocator. If the process is killed, the
    file has everything up to 200 ms before. A rank of several (``RANK``, ``WORLD_SIZE``) writes its own file:
    ``run.rank0.vtrace``. An existing recording or report of that name is replaced; a pipe or a device is written in place.

    Args:
        path: the file to write.
        stacks: the call stacks to record for each request: "python", "native" (C++), or None, which costs the least.
        limit: the largest size on the disk ("2GiB", or bytes; at least 1 MiB); the latest events are kept.
        force: replace any existing file.

    Raises:
        VramError: a recording runs already; the file cannot be created, is being written by another recording, or was not
            written by vram; or PyTorch's events are not available.

    >>> import vram, tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with vram.record(os.path.join(folder, "run.vtrace")) as recording:
    ...         with vram.scope("forward"):
    ...             vram.is_recording()
    ...     recording.lost
    True
    0
    """
    if stacks not in STACKS:
        raise ValueError(f"stacks is 'python', 'native' or None, not {stacks!r}")
    options = _library.RecordOptions(
        struct_bytes=ctypes.sizeof(_library.RecordOptions),
        stacks=STACKS[stacks],
        is_named_by_rank=1,
        replaces_any=int(force),
        limit_bytes=0 if limit is None else parse_limit(limit),
    )
    with _State.lock:
        if library().vram_record_start(os.fsencode(path), ctypes.byref(options)) != OK:
            raise VramError(_library.last_error())
        try:
            _begin(with_stacks=stacks is not None)
        except VramError:
            library().vram_record_stop()
            raise
        _State.running = recording = Recording()
    return recording


def _begin(*, with_stacks: bool) -> None:
    """What a recording that has just started is told."""
    _process.describe()
    _taps.start(with_stacks=with_stacks)
    _marks.recording_began()


def _end() -> None:
    """VramError: from some moment on it could not be written."""
    _taps.stop()
    if library().vram_record_stop() != OK:
        raise VramError(f"the recording has stopped early: {_library.last_error()}; what came before is in the file")


def is_recording() -> bool:
    """Return whether a recording runs in this process.

    >>> import vram
    >>> vram.is_recording()
    False
    """
    return bool(library().vram_is_recording())


def record_from_environment(*, requires_driver: bool = False) -> None:
    """For ``vram run --record``: records until the process ends, as the environment says. VramError: it can't be.

    requires_driver: a machine without CUDA's driver, on which there is nothing to record, counts as that, too.
    """
    if requires_driver:
        _taps.require_driver()
    if library().vram_record_start_as_told() != OK:
        raise VramError(_library.last_error())
    _children.finish_at_exit(_end_in_child)
    _begin(with_stacks=bool(os.environ.get("VRAM_RECORD_STACKS")))


def _end_in_child() -> None:
    with contextlib.suppress(VramError):  # nobody is there to be told
        _end()


def finish_recording() -> Path | None:
    """At the end of the process, what record_from_environment() began: its file, or one of another process of the program; None:
    there was nothing to record. VramError: from some moment on it could not be written."""
    _end()
    told = Path(os.environ["VRAM_RECORD"])
    since = float(os.environ.get("VRAM_RECORD_SINCE", "0"))
    others = (file for file in told.parent.glob(f"{told.stem}*{told.suffix}") if file.stat().st_mtime >= since)
    return recorded_file() or next(others, None)


def recorded_file() -> Path | None:
    """The file of the recording that runs, or the last one; None: nothing has been recorded yet."""
    text = ctypes.create_string_buffer(4096)
    library().vram_record_path(text, len(text))
    return Path(os.fsdecode(text.value)) if text.value else None


def _counts() -> tuple[int, int, int]:
    counts = _library.RecordCounts(struct_bytes=ctypes.sizeof(_library.RecordCounts))
    library().vram_get_record_counts(ctypes.byref(counts))
    return counts.events, counts.lost, counts.file_bytes

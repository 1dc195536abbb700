"""``vram.record()``: what happens to GPU memory goes to a file until it is stopped."""

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
    """A recording that runs, or has ended; made by record(). Any thread may stop it."""

    def __init__(self) -> None:
        self._path = recorded_file() or Path()
        self._counts = (0, 0, 0)

    @property
    def path(self) -> Path:
        """The file that is written (``NAME.old.vtrace`` beside it has what is older, where the size is limited)."""
        return self._path

    @property
    def events(self) -> int:
        """Events written so far."""
        return self._read()[0]

    @property
    def lost(self) -> int:
        """Events given up because the disk was too slow for too long; 0 is normal."""
        return self._read()[1]

    @property
    def written_bytes(self) -> int:
        """Bytes written so far, those of parts that have gone since included."""
        return self._read()[2]

    def stop(self) -> None:
        """Waits until all is in the file. VramError: from some moment on it could not be written. Twice is once."""
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
    """Records GPU memory from now on into a ``.vtrace`` file, for ``vram report``; to be stopped, or used by ``with``.

    stacks: where each request came from: "python", "native" (C++), or None, which costs least. limit: what the file may
    take on the disk ("2GiB", or bytes, at least 1 MiB): the latest stays. A rank of several (``RANK``, ``WORLD_SIZE``)
    writes to its own file: ``run.rank0.vtrace``. A recording or report of that name is replaced, any other file only with
    force=True; a pipe or a device is written in place. What is recorded: vram's pool; under
    PyTorch's own allocator its events, once torch is imported. What a process had recorded up to 200 ms before it is
    killed is in the file.

    VramError: something is recorded already, the file can't be made, is written by another recording or was not written
    by vram, or PyTorch can't be listened to.

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
    """Whether something is recorded in this process.

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

"""``vram.flight_recorder()``: retains the last steps, and writes a recording when something goes wrong."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from vram._arguments import MAX_UINT32, require_integers, require_one_of
from vram._error import VramError
from vram._library import last_error, library, sized
from vram._prototypes import OK, FlightOptions
from vram._sizes import parse_limit
from vram._texts import tr
from vram.recording import _taps
from vram.recording._beginning import STACKS, begin

NEVER = 2**64 - 1


class _State:
    lock = threading.RLock()
    running: FlightRecorder | None = None
    is_resting = False  # vram.record() records, with the same taps
    lacks_taps = False  # started before the framework was imported


class FlightRecorder:
    """A running or finished flight recorder, created by flight_recorder(). Any thread may use it."""

    def __init__(self, folder: Path, options: FlightOptions) -> None:
        self._folder = folder
        self._options = options

    @property
    def folder(self) -> Path:
        """Where it writes its files."""
        return self._folder

    def dump(self) -> Path:
        """Write what is retained to a recording of its own, ``flight.<pid>.request.vtrace``. Takes some 10 ms.

        Returns:
            The file.

        Raises:
            VramError: The file cannot be written, or the flight recorder does not run: it was stopped, has stopped early, or
                rests while vram.record() records.
        """
        path = ctypes.create_string_buffer(4096)
        if _State.running is not self or library().vram_flight_dump(path, len(path)) != OK:
            raise VramError(last_error() if _State.running is self else tr("the flight recorder was stopped"))
        return Path(os.fsdecode(path.value))

    def stop(self) -> None:
        """Stop it and remove what it retains; files that it has written remain. Calling it again has no effect.

        Raises:
            VramError: It stopped early, because the folder could not be written.
        """
        with _State.lock:
            if _State.running is not self:
                return
            _State.running = None
            atexit.unregister(_stop_quietly)
            if _State.is_resting:
                _State.is_resting = False
                library().vram_flight_stop()  # of what on_signal requests
                return
            self._end(library().vram_flight_stop)

    def _begin(self) -> None:
        if library().vram_flight_start(os.fsencode(self._folder), ctypes.byref(self._options)) != OK:
            raise VramError(last_error())
        try:
            _State.lacks_taps = not begin(with_stacks=bool(self._options.stacks))
        except BaseException:
            library().vram_flight_stop()
            raise

    def _end(self, end: Callable[[], int]) -> None:
        _taps.stop()
        if end() != OK:
            raise VramError(tr("the flight recorder has stopped early: {}").format(last_error()))

    def __enter__(self) -> FlightRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def flight_recorder(
    folder: str | Path = "flights",
    *,
    steps: int = 100,
    minutes: float = 10,
    stacks: str | None = "python",
    max_files: int = 4,
    max_bytes: int | str = "24MiB",
    growth: int | str | None = "64MiB",
    fragmentation: int | str | None = "512MiB",
    signals: bool = True,
    on_signal: signal.Signals | int | None = None,
) -> FlightRecorder:  # size: most of it is its documentation
    """Retain the last steps of this process's GPU memory events, and write them to a file when something goes wrong.

    Files are recordings, for ``vram report``: ``flight.<pid>.oom.vtrace`` before the exception of a failed request for memory
    reaches the program, ``…crash.vtrace`` before a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) and ``…sigterm.vtrace``
    before SIGTERM take effect, ``…growth.vtrace`` and ``…fragmentation.vtrace`` when a rule fires, and others on request: dump(), a signal, ``vram record --pid``. A killed process leaves
    ``flight.<pid>.vtrace``. Call stop() on the result, or use it in a ``with`` statement. While vram.record() records, the
    flight recorder rests.

    Args:
        folder: Where the files go. Created if it does not exist. A process that ends by itself leaves only the files of
            events that occurred.
        steps: At least so many of the last steps (``vram.step()``) are retained, at most twice as many.
        minutes: At least so many minutes are retained, if they come before `steps`.
        stacks: Records the origin of each request: "python", "native" (C++), or None, which is the cheapest.
        max_files: The maximum number of files of this process. If there are more, the oldest is removed.
        max_bytes: The maximum disk space of what is retained, at least 3 MiB: "24MiB" or a number of bytes. If that is full,
            fewer steps are retained.
        growth: Writes a file when the memory that stays alive has grown steadily by so much over 32 steps or more; the next
            one needs twice as much. None: never.
        fragmentation: Writes a file when the allocator takes memory from the device although so much of what it holds, and
            a fifth of it, is unused; the next one needs twice as much. None: never.
        signals: False installs no handlers. Handlers of the program that are there before run after the file is written.
        on_signal: A signal that requests a file, such as ``signal.SIGUSR2``. After stop() it has the effect that it had before.

    Raises:
        VramError: A recording or another flight recorder is running, the folder cannot be written, PyTorch's allocator
            cannot be recorded, or a program cannot handle the signal.
        ValueError: `stacks`, `steps`, `minutes`, `max_files`, `max_bytes`, `growth`, `fragmentation` or `on_signal` is invalid.

    >>> import vram, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with vram.flight_recorder(folder, stacks=None) as recorder:
    ...         vram.step()
    ...         file = recorder.dump()
    ...     file.name.endswith(".request.vtrace")
    True
    """
    require_one_of(STACKS, stacks=stacks)
    require_integers(1, steps=steps)
    require_integers(1, MAX_UINT32, max_files=max_files)
    require_integers(1, signal.NSIG - 1, on_signal=on_signal)
    if not minutes > 0:
        raise ValueError(tr("expected minutes to be more than 0, got {!r}").format(minutes))
    if minutes * 60e9 >= 2**63:
        raise ValueError(tr("minutes must be less than 153,722,867 (292 years), not {!r}").format(minutes))
    options = sized(
        FlightOptions,
        stacks=STACKS[stacks],
        max_files=max_files,
        steps=steps,
        duration_ns=int(minutes * 60e9),
        max_bytes=parse_limit(max_bytes),
        ignores_signals=int(not signals),
        on_signal=0 if on_signal is None else int(on_signal),
        growth_bytes=NEVER if growth is None else parse_limit(growth),
        unused_bytes=NEVER if fragmentation is None else parse_limit(fragmentation),
    )
    recorder = FlightRecorder(Path(folder).absolute(), options)
    with _State.lock:
        if _State.running is not None:
            raise VramError(
                tr("a flight recorder is running already, with {}; stop that first").format(_State.running.folder)
            )
        recorder._begin()
        _State.running = recorder
    atexit.register(_stop_quietly, recorder)
    return recorder


def _stop_quietly(recorder: FlightRecorder) -> None:
    with contextlib.suppress(VramError):
        recorder.stop()


def rest() -> FlightRecorder | None:
    """Stop the running flight recorder for the time of a recording. Returns it, for wake()."""
    with _State.lock:
        if _State.running is not None:
            with contextlib.suppress(VramError):  # it had stopped early
                _State.running._end(library().vram_flight_rest)
            _State.is_resting = True
        return _State.running


def wake(resting: FlightRecorder | None) -> None:
    """Continue after a recording, from the memory that is there now."""
    with _State.lock:
        if resting is not None and _State.running is resting:
            _State.is_resting = False
            with contextlib.suppress(VramError):  # dump() will say so
                resting._begin()


def _forget() -> None:
    """A child made by fork has no flight recorder; another thread may have held the lock."""
    _State.lock = threading.RLock()
    _State.running, _State.is_resting, _State.lacks_taps = None, False, False


os.register_at_fork(after_in_child=_forget)


def attach_once_imported() -> None:
    """Call attach() unless PyTorch is being imported by another thread. Called by vram.step()."""
    if _State.lacks_taps:
        specification = getattr(sys.modules.get("torch"), "__spec__", None)
        if not getattr(specification, "_initializing", False):
            attach()


def attach() -> None:
    """Start what had to wait for an import of PyTorch. Called by ``vram run`` at the end of the import."""
    if _State.lacks_taps and "torch" in sys.modules:
        with _State.lock, contextlib.suppress(VramError):
            if _State.running is not None and _State.lacks_taps:
                _State.lacks_taps = False
                _taps.start(with_stacks=bool(_State.running._options.stacks))


def start_from_environment() -> None:
    """Start the flight recorder that ``VRAM_FLIGHT`` requests; it runs until the process ends.

    A recording that the environment requests has precedence. Warns if it cannot be started: the program continues.
    """
    folder = os.environ.get("VRAM_FLIGHT")
    if not folder or "VRAM_RECORD" in os.environ or _State.running is not None:
        return
    stacks = os.environ.get("VRAM_FLIGHT_STACKS", "python")
    try:
        flight_recorder(folder, stacks=None if stacks == "none" else stacks)
    except (OSError, ValueError, VramError) as error:
        warnings.warn(tr("VRAM_FLIGHT: no flight recorder: {}").format(error), RuntimeWarning, stacklevel=2)

"""Ctrl-C during a dry run: KeyboardInterrupt where the program can be left, a moment later elsewhere.

A thread that ends the program sends the same signal to the main thread, which may wait for a lock, and raises another exception there.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

_RETRY_SECONDS = 0.005
_MAX_DELAY_SECONDS = 5.0  # then it comes wherever the program is: something may wait forever
# PyTorch's C++ code calls these, also where it can't be left by an exception: the process would be aborted. Python prints and ignores exceptions
# in functions that ctypes calls, and in what ends with a tensor or another object.
_KEPT = tuple(
    os.sep + os.path.join(*path)
    for path in (
        ("_weakrefset.py",),
        ("weakref.py",),
        ("vram", "dry", "_accelerator.py"),
        ("vram", "dry", "_fakes.py"),
        ("vram", "dry", "_mode.py"),
        ("vram", "dry", "_storages.py"),
        ("vram", "dry", "_tape.py"),
        ("torch", "_library", "simple_registry.py"),
        ("torch", "_ops.py"),
        ("torch", "_subclasses", "fake_tensor.py"),
        ("torch", "utils", "weak.py"),
        ("vram", "watching", "_process.py"),
        ("vram", "watching", "_watch.py"),
    )
)


class Interrupts:
    """Python's answer to Ctrl-C, replaced from begin() to end(). Without an effect in threads, and if the program has its own answer."""

    def __init__(self) -> None:
        self.is_blocked = False  # while the dry run itself begins or ends
        self._is_ours = False
        self._asked: float | None = None  # when the user did, if there was no answer yet
        self._traced: FrameType | None = None  # in which the answer is to come
        self._sends = threading.Lock()
        self._end_with: type[BaseException] | None = None  # what ends the program, while it can be ended
        self._is_ending = False  # the signal was sent to end it

    def begin(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        is_default = before is signal.default_int_handler or isinstance(getattr(before, "__self__", None), Interrupts)
        if is_default and _is_in_main_thread():
            signal.signal(signal.SIGINT, self._answer)
            self._is_ours = True

    def end(self) -> None:
        self._untrace()
        if self._is_ours and signal.getsignal(signal.SIGINT) == self._answer and _is_in_main_thread():
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._is_ours = False

    @contextlib.contextmanager
    def ending_with(self, error: type[BaseException]) -> Iterator[Callable[[], None]]:
        """Yield what another thread calls to end this ``with`` block of the main thread with an exception. Without an effect where Ctrl-C has none."""
        self._end_with = error
        try:
            yield self._end
        finally:
            with self._sends:
                self._end_with = None
            if self._is_ending:
                self._answered()

    def _end(self) -> None:
        with self._sends:
            if (
                self._end_with is not None
                and not self._is_ending
                and not _is_in_main_thread()
                and signal.getsignal(signal.SIGINT) == self._answer
            ):
                self._is_ending = True
                _ask_main_thread()

    def _answer(self, _number: int, frame: FrameType | None) -> None:
        if self._is_ending and self._end_with is None:  # it has ended meanwhile
            self._is_ending = False
            return
        now = time.monotonic()
        asked = now if self._asked is None else self._asked
        kept = _outermost_kept(frame)
        if (self.is_blocked or kept is not None) and now - asked < _MAX_DELAY_SECONDS:
            self._asked = asked
            if kept is not None and not self.is_blocked:
                self._trace(kept.f_back)
            # Without the locks of a threading.Thread, which the main thread may hold.
            _thread.start_new_thread(self._ask_again, ())
            return
        self._interrupt()

    def _ask_again(self) -> None:
        time.sleep(_RETRY_SECONDS)
        if self._asked is not None:  # there was no answer since
            _ask_main_thread()

    def _trace(self, frame: FrameType | None) -> None:
        """Let the answer come when this frame continues: a program may be elsewhere only for moments, which asking again misses."""
        if frame is not None and frame is not self._traced and (self._traced is not None or sys.gettrace() is None):
            self._untrace()
            self._traced, frame.f_trace = frame, self._continued
            sys.settrace(_nothing_is_traced)

    def _untrace(self) -> None:
        if self._traced is not None:
            self._traced.f_trace = None
            self._traced = None
            sys.settrace(None)

    def _continued(self, _frame: FrameType, _event: str, _argument: object) -> None:
        if self._asked is None or self.is_blocked:
            self._answered()
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        self._answered()
        if self._is_ending and self._end_with is not None:
            self._is_ending = False
            raise self._end_with
        raise KeyboardInterrupt

    def _answered(self) -> None:
        self._asked = None
        self._untrace()


def _is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _ask_main_thread() -> None:
    """Send the signal of Ctrl-C, which also ends a wait for a lock, as _thread.interrupt_main() does not."""
    number = threading.main_thread().ident
    if number is not None:
        signal.pthread_kill(number, signal.SIGINT)


def _nothing_is_traced(_frame: FrameType, _event: str, _argument: object) -> None: ...


def _outermost_kept(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a function that must not be left that all others were called by; None: the program is in none."""
    found = None
    while frame is not None:
        if frame.f_code.co_filename.endswith(_KEPT):
            found = frame
        frame = frame.f_back
    return found

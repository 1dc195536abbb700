"""Ctrl-C during a dry run: KeyboardInterrupt where the program can be left, a moment later elsewhere."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
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

    def begin(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._answer)
            self._is_ours = True

    def end(self) -> None:
        self._untrace()
        if self._is_ours and signal.getsignal(signal.SIGINT) == self._answer:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._is_ours = False

    def _answer(self, number: int, frame: FrameType | None) -> None:
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
        self._answered()
        signal.default_int_handler(number, frame)

    def _ask_again(self) -> None:
        time.sleep(_RETRY_SECONDS)
        if self._asked is not None:  # there was no answer since
            _thread.interrupt_main()

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

    def _continued(self, frame: FrameType, _event: str, _argument: object) -> None:
        is_asked = self._asked is not None and not self.is_blocked
        self._answered()
        if is_asked:
            signal.default_int_handler(signal.SIGINT, frame)

    def _answered(self) -> None:
        self._asked = None
        self._untrace()


def _nothing_is_traced(_frame: FrameType, _event: str, _argument: object) -> None: ...


def _outermost_kept(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a function that must not be left that all others were called by; None: the program is in none."""
    found = None
    while frame is not None:
        if frame.f_code.co_filename.endswith(_KEPT):
            found = frame
        frame = frame.f_back
    return found

"""Ctrl-C during a dry run: KeyboardInterrupt where the program can be left, a moment later elsewhere."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from types import FrameType

_RETRY_SECONDS = 0.005
_MAX_DELAY_SECONDS = 2.0  # then it comes wherever the program is: something may wait forever
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
    )
)


class Interrupts:
    """Python's answer to Ctrl-C, replaced from begin() to end(). Without an effect in threads, and if the program has its own answer."""

    def __init__(self) -> None:
        self.is_blocked = False  # while the dry run itself begins or ends
        self._is_ours = False
        self._asked: float | None = None  # when the user did, if there was no answer yet

    def begin(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._answer)
            self._is_ours = True

    def end(self) -> None:
        if self._is_ours and signal.getsignal(signal.SIGINT) == self._answer:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._is_ours = False

    def _answer(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        asked = now if self._asked is None else self._asked
        if (self.is_blocked or _is_kept(frame)) and now - asked < _MAX_DELAY_SECONDS:
            self._asked = asked
            # Without the locks of a threading.Thread, which the main thread may hold.
            _thread.start_new_thread(_ask_again, ())
            return
        self._asked = None
        signal.default_int_handler(number, frame)


def _ask_again() -> None:
    time.sleep(_RETRY_SECONDS)
    _thread.interrupt_main()


def _is_kept(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(_KEPT):
            return True
        frame = frame.f_back
    return False

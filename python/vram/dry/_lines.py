"""Which line of the program runs: errors and warnings name it, and the user states for it what to assume.

A line of an installed library is named with the line of the program that called it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

from vram._texts import tr

_OWN_FOLDERS = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,)
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = tuple(os.sep + name + os.sep for name in ("site-packages", "dist-packages"))
_NUMPY = tuple(folder + "numpy" + os.sep for folder in _INSTALLED)


def is_own(frame: FrameType) -> bool:
    """Return whether a frame is of PyTorch, of vram, or of NumPy, which reads tensors for its caller."""
    file = frame.f_code.co_filename
    torch = sys.modules.get("torch")
    folder = os.path.dirname(torch.__file__ or "") + os.sep if torch is not None else os.sep
    return file.startswith((*_OWN_FOLDERS, folder, "<frozen")) or any(name in file for name in _NUMPY)


def users_frames() -> Iterator[FrameType]:
    """Yield the frames of the calling thread that are not is_own(), innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_own(frame):
            yield frame
        frame = frame.f_back


def users_frame() -> FrameType | None:
    """Return the innermost frame of the calling thread that is not is_own()."""
    return next(users_frames(), None)


def is_of_library(frame: FrameType | None) -> bool:
    """Return whether a frame is of an installed library."""
    return frame is not None and any(name in frame.f_code.co_filename for name in _INSTALLED)


def programs_frame() -> FrameType | None:
    """Return the innermost frame that is of no library either; None: there is none."""
    frames = (each for each in users_frames() if not is_of_library(each))
    return next((each for each in frames if not each.f_code.co_filename.startswith(_STANDARD)), None)


def users_line() -> str:
    """Return the line that is running: "/home/me/train.py:42"."""
    frame = users_frame()
    if frame is None:
        return tr("an unknown line")
    line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    caller = programs_frame() if is_of_library(frame) else None
    return line if caller is None else tr("{} (called at {})").format(line, key_of(caller))


def key_of(frame: FrameType | None) -> str:
    """Return the line of a frame as the user states it: "train.py:42"."""
    return "train.py:1" if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


# By file, what warnings.warn() keeps in each module: the warnings that it has shown.
_shown: dict[str, dict[Any, Any]] = {}


def forget_warnings() -> None:
    """Show warnings again that were shown for the same lines: another dry run begins."""
    _shown.clear()


def warn(text: str) -> None:
    """Warn about the line of the program that is running; once, unless the program's filters say otherwise."""
    frame = users_frame()
    file, line = ("vram.dry_run", 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(text, UserWarning, file, line, registry=_shown.setdefault(file, {}))

"""What the package says to the recorder (vram/record.h): scopes, and names of memory. All Python code says it here.

Any thread may call. Nothing here waits for a device or another thread's Python code, so the calls keep the
interpreter's lock: giving it up and getting it back would cost more than they do.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Callable, NamedTuple

from vram._library import library

# Tensors of other kinds of devices are not the recorder's.
DEVICE_TYPES = frozenset({"cuda"})


class Functions(NamedTuple):
    """The recorder's, with names as bytes."""

    scope_begin: Callable[[bytes], None]
    scope_end: Callable[[], None]
    name: Callable[[int, int, int, bytes, bytes], None]
    is_recording: Callable[[], int]


@cache
def functions() -> Functions:
    """VramError: there is no library."""
    loaded = library()
    keeping_the_lock = ctypes.PyDLL(loaded._name, handle=loaded._handle)
    found = []
    for which in Functions._fields:
        typed, function = getattr(loaded, f"vram_{which}"), getattr(keeping_the_lock, f"vram_{which}")
        function.restype, function.argtypes = typed.restype, typed.argtypes
        found.append(function)
    return Functions(*found)


class _Encoded(dict):  # type: ignore[type-arg]
    """Names as bytes, each made once."""

    def __missing__(self, name: str) -> bytes:
        self[name] = encoded = name.encode(errors="replace")
        return encoded


class _Thread(threading.local):
    trailing = 0


_encoded = _Encoded()
_thread = _Thread()
_recordings = 0


def is_recording() -> bool:
    return functions().is_recording() != 0


def recording_began() -> None:
    """Said by whoever starts one from Python: what has names says them again."""
    global _recordings
    _recordings += 1


def recordings() -> int:
    """How many have begun from Python."""
    return _recordings


def scope_begin(name: str) -> None:
    if _thread.trailing:
        end_trail()
    functions().scope_begin(_encoded[name])


def scope_end() -> None:
    """Of the scope that was begun last on this thread, trails not counted."""
    if _thread.trailing:
        end_trail()
    functions().scope_end()


def step() -> None:
    """A step of training begins."""
    end_trail()
    library().vram_step()


def trail(*names: str) -> None:
    """Begins scopes, one in the other, that end by themselves when this thread begins or ends another."""
    for name in names:
        scope_begin(name)
    _thread.trailing = len(names)


def end_trail() -> None:
    """At once, if this thread has one."""
    for _ in range(_thread.trailing):
        functions().scope_end()
    _thread.trailing = 0


def name_memory(device: int, address: int, bytes: int, name: str, category: str) -> None:  # noqa: A002
    functions().name(device, address, bytes, _encoded[name], _encoded[category])

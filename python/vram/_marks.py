"""The package's interface to the recorder (vram/record.h): scopes, and names of memory. All Python code uses it.

Any thread may call. Nothing here waits for a device or another thread's Python code, so the calls keep the
interpreter's lock: giving it up and getting it back would cost more than they do.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Callable, NamedTuple

from vram._library import keeping_the_lock, library

# The recorder does not record other kinds of devices.
DEVICE_TYPES = frozenset({"cuda"})


class Functions(NamedTuple):
    """The recorder's functions, with names as bytes."""

    scope_begin: Callable[[bytes], None]
    scope_end: Callable[[], None]
    name: Callable[[int, int, int, bytes, bytes], None]
    is_recording: Callable[[], int]


@cache
def functions() -> Functions:
    """Raise VramError: there is no library."""
    loaded = library()
    return Functions(*(keeping_the_lock(loaded, f"vram_{which}") for which in Functions._fields))


@cache
def _step() -> Callable[[], None]:
    function: Callable[[], None] = keeping_the_lock(library(), "vram_step")
    return function


class _Encoded(dict):  # type: ignore[type-arg]
    """Names as bytes, each encoded once."""

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
    """Count a recording that Python has started; everything with names then names them again."""
    global _recordings
    _recordings += 1


def recordings() -> int:
    """Return how many recordings Python has started."""
    return _recordings


def scope_begin(name: str) -> None:
    if _thread.trailing:
        end_trail()
    functions().scope_begin(_encoded[name])


def scope_end() -> None:
    """End the scope that this thread began last, not counting trails."""
    if _thread.trailing:
        end_trail()
    functions().scope_end()


def step() -> None:
    """Begin a step of training."""
    if _thread.trailing:
        end_trail()
    _step()()


def trail(*names: str) -> None:
    """Begin nested scopes that end by themselves when this thread begins or ends another scope."""
    for name in names:
        scope_begin(name)
    _thread.trailing = len(names)


def end_trail() -> None:
    """End this thread's trail now, if it has one."""
    for _ in range(_thread.trailing):
        functions().scope_end()
    _thread.trailing = 0


def name_memory(device: int, address: int, bytes: int, name: str, category: str) -> None:  # noqa: A002
    functions().name(device, address, bytes, _encoded[name], _encoded[category])

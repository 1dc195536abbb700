"""The C library (libvram.so, vram/vram.h) by ctypes: found, loaded once, with the types of its functions.

It is loaded so that its functions, all named ``vram_*``, can be found by what is loaded later: the adapter under PyTorch
calls them. ``VRAM_LIBRARY`` names another file.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from vram._error import VramError
from vram._prototypes import OK, PROTOTYPES, Stats
from vram._texts import tr

PACKAGE = Path(__file__).resolve().parent

Struct = TypeVar("Struct", bound=ctypes.Structure)


def path() -> Path:
    """Return where the library lies."""
    named = os.environ.get("VRAM_LIBRARY")
    return Path(named) if named else PACKAGE / "lib" / "libvram.so"


@cache
def library() -> ctypes.CDLL:
    """Return the library, loaded at the first call.

    Raises:
        VramError: There is none, or it is of another version.
    """
    file = path()
    if not file.is_file():
        what = tr("VRAM_LIBRARY names it") if "VRAM_LIBRARY" in os.environ else tr("vram was installed without it")
        raise VramError(
            tr("{}: no such file ({}); install the package again, or set VRAM_LIBRARY to libvram.so").format(file, what)
        )
    try:
        loaded = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
        declare(loaded, PROTOTYPES)
    except (OSError, AttributeError) as error:
        raise VramError(tr("{}: this is not vram's library, or not of this version: {}").format(file, error)) from error
    atexit.register(loaded.vram_python_ends)
    return loaded


def declare(loaded: ctypes.CDLL, prototypes: dict[str, tuple[Any, list[Any]]]) -> None:
    """Set the types of functions: by name, that of the result and those of the parameters.

    Raises:
        AttributeError: The library lacks one.
    """
    for name, (result, parameters) in prototypes.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, parameters


def keeping_the_lock(loaded: ctypes.CDLL, name: str) -> Any:
    """Return a function of a library that keeps the interpreter's lock while it runs; its types are those that it has in `loaded`."""
    typed, function = getattr(loaded, name), getattr(ctypes.PyDLL(loaded._name, handle=loaded._handle), name)
    function.restype, function.argtypes = typed.restype, typed.argtypes
    return function


def last_error() -> str:
    """Return why the last call of this thread failed, of those that report it."""
    text: bytes = library().vram_last_error()
    return text.decode(errors="replace")


def status_text(status: int) -> str:
    """Return what a vram_status means."""
    text: bytes = library().vram_status_text(status)
    return text.decode()


def sized(struct: type[Struct], **members: object) -> Struct:
    """Return a struct that states its size, from which the library knows its version."""
    return struct(struct_bytes=ctypes.sizeof(struct), **members)


class Pool:
    """A device's pool, held open."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.handle = ctypes.c_void_p()
        if library().vram_pool_open(device, None, ctypes.byref(self.handle)) != OK:
            raise VramError(tr("no pool on device {}: {}").format(device, last_error()))

    def close(self) -> None:
        library().vram_pool_close(self.handle)

    def stats(self) -> Stats:
        stats = sized(Stats)
        status = library().vram_get_stats(self.handle, ctypes.byref(stats))
        if status != OK:
            raise VramError(f"device {self.device}: {status_text(status)}")
        return stats

    def oom_text(self) -> str:
        text = ctypes.create_string_buffer(4096)
        library().vram_explain_oom(self.handle, text, len(text))
        return text.value.decode(errors="replace")

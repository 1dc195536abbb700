"""The C library (libvram.so, vram/vram.h) by ctypes: found, loaded once, with typed prototypes.

It is loaded so that its functions, all named ``vram_*``, can be found by what is loaded later: the adapter under PyTorch
calls them. ``VRAM_LIBRARY`` names another file.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from functools import cache
from pathlib import Path

from vram._error import VramError

PACKAGE = Path(__file__).resolve().parent

OK = 0
OUT_OF_MEMORY = 1
NOT_SUPPORTED = 3


class Stat(ctypes.Structure):
    """vram_stat"""

    _fields_ = [(name, ctypes.c_uint64) for name in ("current", "peak", "allocated", "freed")]


# vram_stats, after struct_bytes: figures with a history, then plain numbers.
STATS = ("allocation", "allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
NUMBERS = (
    "num_alloc_retries",
    "num_ooms",
    "num_device_alloc",
    "num_device_free",
    "limit_bytes",
    "stitches",
    "stitch_reuses",
    "stream_waits",
    "slow_requests",
    "driver_calls",
    "driver_ns",
)


class Stats(ctypes.Structure):
    """vram_stats"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        *[(name, Stat) for name in STATS],
        *[(name, ctypes.c_uint64) for name in NUMBERS],
    ]


class RecordOptions(ctypes.Structure):
    """vram_record_options"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("stacks", ctypes.c_int),
        ("is_lazy", ctypes.c_uint32),
        ("is_named_by_rank", ctypes.c_uint32),
        ("replaces_any", ctypes.c_uint32),
        ("limit_bytes", ctypes.c_uint64),
    ]


class RecordCounts(ctypes.Structure):
    """vram_record_counts"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        *[(name, ctypes.c_uint64) for name in ("events", "lost", "file_bytes")],
    ]


_POINTER = ctypes.c_void_p
Prototypes = dict[str, tuple[object, list[object]]]  # by name: the result's type, the arguments'
_PROTOTYPES: Prototypes = {
    "vram_version": (ctypes.c_char_p, []),
    "vram_status_text": (ctypes.c_char_p, [ctypes.c_int]),
    "vram_pool_open": (ctypes.c_int, [ctypes.c_int, _POINTER, ctypes.POINTER(_POINTER)]),
    "vram_pool_close": (ctypes.c_int, [_POINTER]),
    "vram_last_error": (ctypes.c_char_p, []),
    "vram_alloc": (ctypes.c_int, [_POINTER, ctypes.c_size_t, _POINTER, ctypes.POINTER(_POINTER)]),
    "vram_free": (ctypes.c_int, [_POINTER, _POINTER]),
    "vram_forget_stream": (ctypes.c_int, [_POINTER, _POINTER]),
    "vram_begin_capture": (ctypes.c_int, [_POINTER]),
    "vram_end_capture": (ctypes.c_int, [_POINTER]),
    "vram_trim": (ctypes.c_size_t, [_POINTER, ctypes.c_size_t]),
    "vram_limit": (ctypes.c_int, [_POINTER, ctypes.c_uint64]),
    "vram_explain_oom": (ctypes.c_size_t, [_POINTER, ctypes.c_char_p, ctypes.c_size_t]),
    "vram_get_stats": (ctypes.c_int, [_POINTER, ctypes.POINTER(Stats)]),
    "vram_record_start": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(RecordOptions)]),
    "vram_record_start_as_told": (ctypes.c_int, []),
    "vram_record_stop": (ctypes.c_int, []),
    "vram_record_path": (ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]),
    "vram_is_recording": (ctypes.c_int, []),
    "vram_get_record_counts": (ctypes.c_int, [ctypes.POINTER(RecordCounts)]),
    "vram_record_about": (None, [ctypes.c_char_p, ctypes.c_char_p]),
    "vram_python_ends": (None, []),
    "vram_scope_begin": (None, [ctypes.c_char_p]),
    "vram_scope_end": (None, []),
    "vram_step": (None, []),
    "vram_name": (None, [ctypes.c_int, _POINTER, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_char_p]),
}


def path() -> Path:
    """Where the library lies."""
    named = os.environ.get("VRAM_LIBRARY")
    return Path(named) if named else PACKAGE / "lib" / "libvram.so"


@cache
def library() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    file = path()
    if not file.is_file():
        what = "VRAM_LIBRARY names it" if "VRAM_LIBRARY" in os.environ else "vram was installed without it"
        raise VramError(f"{file}: no such file ({what}); install the package again, or set VRAM_LIBRARY to libvram.so")
    try:
        loaded = ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise _not_ours(error) from error
    declare(loaded, _PROTOTYPES)
    atexit.register(loaded.vram_python_ends)
    return loaded


def declare(loaded: ctypes.CDLL, prototypes: Prototypes) -> None:
    """Functions of the library get their types. VramError: it lacks one."""
    try:
        for name, (result, arguments) in prototypes.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError as error:
        raise _not_ours(error) from error


def _not_ours(error: Exception) -> VramError:
    return VramError(f"{path()}: this is not vram's library, or not of this version: {error}")


def last_error() -> str:
    """Why the last call of this thread failed that says so."""
    text: bytes = library().vram_last_error()
    return text.decode(errors="replace")


def status_text(status: int) -> str:
    """What a vram_status means."""
    text: bytes = library().vram_status_text(status)
    return text.decode()


class Pool:
    """A device's pool, held open."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.handle = _POINTER()
        if library().vram_pool_open(device, None, ctypes.byref(self.handle)) != OK:
            raise VramError(f"no pool on device {device}: {last_error()}")

    def close(self) -> None:
        library().vram_pool_close(self.handle)

    def stats(self) -> Stats:
        stats = Stats(struct_bytes=ctypes.sizeof(Stats))
        status = library().vram_get_stats(self.handle, ctypes.byref(stats))
        if status != OK:
            raise VramError(f"device {self.device}: {status_text(status)}")
        return stats

    def oom_text(self) -> str:
        text = ctypes.create_string_buffer(4096)
        library().vram_explain_oom(self.handle, text, len(text))
        return text.value.decode(errors="replace")

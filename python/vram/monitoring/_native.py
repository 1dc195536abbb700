"""The functions of vram/look.h by ctypes, with typed prototypes. See vram._library, which loads the library."""

from __future__ import annotations

import ctypes
from functools import cache

from vram import _library

UNKNOWN = (1 << 64) - 1
NO_INSTANCE = (1 << 32) - 1
COMPUTE, GRAPHICS = 1, 2


class DeviceInfo(ctypes.Structure):
    """vram_device_info"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("total_bytes", ctypes.c_uint64),
        ("used_bytes", ctypes.c_uint64),
        ("free_bytes", ctypes.c_uint64),
        ("reserved_bytes", ctypes.c_uint64),
        ("busy_percent", ctypes.c_uint64),
        ("memory_busy_percent", ctypes.c_uint64),
        ("process_count", ctypes.c_uint64),
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("trouble", ctypes.c_char * 96),
    ]


class ProcessInfo(ctypes.Structure):
    """vram_process_info"""

    _fields_ = [
        ("pid", ctypes.c_uint32),
        ("kinds", ctypes.c_uint32),
        ("used_bytes", ctypes.c_uint64),
        ("gpu_instance", ctypes.c_uint32),
        ("compute_instance", ctypes.c_uint32),
    ]


class BoardDevice(ctypes.Structure):
    """vram_board_device"""

    _fields_ = [
        ("device", ctypes.c_uint64),
        ("allocated_bytes", ctypes.c_uint64),
        ("reserved_bytes", ctypes.c_uint64),
        ("peak_bytes", ctypes.c_uint64),
        ("cached_bytes", ctypes.c_uint64),
    ]


class BoardFigures(ctypes.Structure):
    """vram_board_figures"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("step", ctypes.c_uint64),
        ("step_ns", ctypes.c_uint64),
        ("scope", ctypes.c_char_p),
        ("devices", ctypes.POINTER(BoardDevice)),
        ("device_count", ctypes.c_size_t),
    ]


class BoardWish(ctypes.Structure):
    """vram_board_wish"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("number", ctypes.c_uint64),
        ("device", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    ]


class BoardPage(ctypes.Structure):
    """vram_board_page"""

    _fields_ = [
        ("struct_bytes", ctypes.c_size_t),
        ("pid", ctypes.c_uint32),
        ("owner", ctypes.c_int),
        ("posted_ns", ctypes.c_uint64),
        ("step", ctypes.c_uint64),
        ("step_ns", ctypes.c_uint64),
        ("device_count", ctypes.c_uint64),
        ("devices", BoardDevice * 16),
        ("scope", ctypes.c_char * 64),
        ("command", ctypes.c_char * 216),
    ]


_POINTER = ctypes.c_void_p
_PROTOTYPES: _library.Prototypes = {
    "vram_look_open": (ctypes.c_int, [ctypes.c_char_p, ctypes.POINTER(_POINTER)]),
    "vram_look_close": (ctypes.c_int, [_POINTER]),
    "vram_look_device_count": (ctypes.c_uint32, [_POINTER]),
    "vram_look_device": (
        ctypes.c_int,
        [
            _POINTER,
            ctypes.c_uint32,
            ctypes.POINTER(DeviceInfo),
            ctypes.POINTER(ProcessInfo),
            ctypes.POINTER(ctypes.c_size_t),
        ],
    ),
    "vram_board_open": (ctypes.c_int, []),
    "vram_board_close": (None, []),
    "vram_board_post": (ctypes.c_int, [ctypes.POINTER(BoardFigures)]),
    "vram_board_request": (ctypes.c_int, [ctypes.POINTER(BoardWish)]),
    "vram_board_answer": (None, [ctypes.c_uint64, ctypes.c_uint64]),
    "vram_board_read": (ctypes.c_int, [ctypes.c_uint32, ctypes.POINTER(BoardPage)]),
}


@cache
def library() -> ctypes.CDLL:
    """The library, with the functions of look.h ready to be called."""
    loaded = _library.library()
    _library.declare(loaded, _PROTOTYPES)
    return loaded

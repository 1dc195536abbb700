"""The functions of vram/report.h by ctypes: a recording in the library, its documents, and streams of its tables."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import weakref
from functools import cache
from pathlib import Path
from typing import Any

from vram import _library
from vram._error import VramError
from vram._prototypes import (
    REPORT_FILE_FAILED,
    REPORT_INVALID_VALUE,
    REPORT_NO_FILE,
    REPORT_OK,
    REPORT_OUT_OF_MEMORY,
    REPORT_PROTOTYPES,
    ArrowArrayStream,
    ReportOptions,
)
from vram._texts import tr

_POINTER = ctypes.c_void_p
_MAX_UINT64 = (1 << 64) - 1  # ctypes takes the lowest bits of larger numbers


def path() -> Path:
    """Return the path of the library, which is next to libvram.so."""
    return _library.path().with_name("libvram_report.so")


@cache
def library() -> ctypes.CDLL:
    """Return the library, loaded at the first call."""
    file = path()
    if not file.is_file():
        raise VramError(tr("{}: no such file: vram was installed without it; install the package again").format(file))
    try:
        loaded = ctypes.CDLL(str(file))
        _library.declare(loaded, REPORT_PROTOTYPES)
    except (OSError, AttributeError) as error:
        raise VramError(tr("{}: this is not vram's library, or not of this version: {}").format(file, error)) from error
    return loaded


def table_names() -> tuple[str, ...]:
    """Return the names of the tables that a recording has."""
    every = map(library().vram_report_table_name, itertools.count())
    return tuple(name.decode() for name in itertools.takewhile(bool, every))


class NativeReport:
    """A recording in the library, closed with this object. Any thread may use it."""

    def __init__(self, file: str | os.PathLike[str], max_bytes: int) -> None:
        options = _library.sized(ReportOptions, max_bytes=min(max_bytes, _MAX_UINT64))
        handle = _POINTER()
        name = os.fsencode(file)
        if b"\0" in name:
            raise ValueError(tr("expected a path, found a null byte in {!r}").format(file))
        _check(library().vram_report_open(name, ctypes.byref(options), ctypes.byref(handle)), os.fspath(file))
        self._handle = handle
        # Not at the end of the process, where daemon threads and other functions of atexit may still use it.
        weakref.finalize(self, library().vram_report_close, handle).atexit = False

    def document(self, top: int) -> bytes:
        """Return vram.report/1 as JSON."""
        text = ctypes.c_char_p()
        _check(library().vram_report_json(self._handle, top, ctypes.byref(text)))
        return _taken(text)

    def state(self, device: int, at: str, top: int) -> bytes:
        """Return the state of a device at a moment as JSON."""
        text = ctypes.c_char_p()
        if "\0" in at:
            raise ValueError(tr("expected a moment, found a null byte in {!r}").format(at))
        _check(library().vram_report_state_json(self._handle, device, at.encode(), top, ctypes.byref(text)))
        return _taken(text)

    def stream(self, table: str) -> object:
        """Return the rows of a table as a PyCapsule with an ArrowArrayStream."""
        stream = ArrowArrayStream()
        _check(library().vram_report_table(self._handle, table.encode(), ctypes.byref(stream)))
        return _capsule(stream)


def _taken(text: ctypes.c_char_p) -> bytes:
    """Return a text of the library, which is freed."""
    try:
        return text.value or b""
    finally:
        library().vram_report_free_text(text)


def _check(status: int, file: str | None = None) -> None:
    """Raise the exception that describes a failed call of this thread."""
    if status == REPORT_OK:
        return
    message = library().vram_report_last_error().decode(errors="replace")
    if status == REPORT_OUT_OF_MEMORY:
        raise MemoryError(message)
    if status == REPORT_INVALID_VALUE:
        raise ValueError(message)
    if status == REPORT_NO_FILE:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
    if status == REPORT_FILE_FAILED:
        raise OSError(message)
    raise VramError(message)


# Streams that belong to capsules, by address.
_streams: dict[int, ArrowArrayStream] = {}
_CAPSULE_NAME = b"arrow_array_stream"  # Arrow's; CPython keeps the pointer
_python: Any = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [_POINTER, ctypes.c_char_p, _POINTER]
_python.PyCapsule_GetPointer.restype = _POINTER
_python.PyCapsule_GetPointer.argtypes = [_POINTER, ctypes.c_char_p]


def _destroy(capsule: int) -> None:
    stream = _streams.pop(_python.PyCapsule_GetPointer(capsule, _CAPSULE_NAME))
    if stream.release:  # otherwise a reader has taken it over
        stream.release(ctypes.addressof(stream))


_destructor = ctypes.PYFUNCTYPE(None, _POINTER)(_destroy)
# A capsule may outlive this module at the end of the process, and calls this function then.
_python.Py_IncRef(ctypes.py_object(_destructor))


def _capsule(stream: ArrowArrayStream) -> object:
    address = ctypes.addressof(stream)
    _streams[address] = stream
    return _python.PyCapsule_New(address, _CAPSULE_NAME, ctypes.cast(_destructor, _POINTER))

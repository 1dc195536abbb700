"""The trace of a dry run: made-up memory, reported to the recorder of the C library (vram/record.h) like any other."""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from pathlib import Path

from vram import _library, _marks
from vram._error import VramError
from vram._library import library, sized
from vram._prototypes import EVENT_ALLOC, EVENT_FREE, EVENT_SEGMENT_ALLOC, OK, Event, RecordOptions
from vram.dry._placement import BLOCK_BYTES, Placement
from vram.recording import _process


class Counter:
    """The memory of a device, counted as PyTorch counts allocated bytes."""

    def __init__(self) -> None:
        self.allocated_bytes = 0
        self.peak_bytes = 0

    def add(self, size_bytes: int) -> None:
        self.allocated_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.allocated_bytes)


class Tape:
    """A recording of made-up memory. One at a time, as there is one recorder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counters: dict[int, Counter] = defaultdict(Counter)
        self.placements: dict[int, Placement] = defaultdict(Placement)
        if library().vram_record_start(os.fsencode(path), ctypes.byref(sized(RecordOptions))) != OK:
            raise VramError(f"no dry run: {_library.last_error()}")
        # Keeps the interpreter's lock: no other thread may come between the events of an operator.
        self._record = ctypes.PyDLL(library()._name, handle=library()._handle).vram_record_event
        self._record.argtypes, self._record.restype = [ctypes.POINTER(Event)], None
        self._is_open = True
        _process.describe()
        self.about("vram.dry_run", "1")
        _marks.recording_began()

    def about(self, key: str, value: str) -> None:
        library().vram_record_about(key.encode(), value.encode(errors="replace"))

    def allocate(self, device: int, size_bytes: int, stream: int) -> int:
        """Return the address of a new block."""
        address, segment = self.placements[device].allocate(size_bytes, stream)
        self.counters[device].add(-(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES)
        if segment is not None:
            self._emit(EVENT_SEGMENT_ALLOC, device, *segment, stream)
        self._emit(EVENT_ALLOC, device, address, size_bytes, stream)
        return address

    def free(self, device: int, address: int, size_bytes: int, stream: int) -> None:
        self._emit(EVENT_FREE, device, address, size_bytes, stream)
        self.placements[device].free(address)
        self.counters[device].add(-(-(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES))

    def _emit(self, kind: int, device: int, address: int, size_bytes: int, stream: int) -> None:
        if self._is_open:
            self._record(ctypes.byref(Event(kind, device, address, size_bytes, stream, 0)))

    def name(self, device: int, address: int, size_bytes: int, name: str, category: str) -> None:
        if self._is_open:
            _marks.name_memory(device, address, size_bytes, name, category)

    def close(self) -> None:
        """Complete the file. What is freed later is no part of it.

        Raises:
            VramError: The file could not be written.
        """
        self._is_open = False
        if library().vram_record_stop() != OK:
            raise VramError(f"the trace of the dry run is incomplete: {_library.last_error()}")

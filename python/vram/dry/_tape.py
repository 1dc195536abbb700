"""The trace of a dry run: made-up memory, reported to the recorder of the C library (vram/record.h) like any other."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from vram import _library, _marks
from vram._error import VramError
from vram._library import keeping_the_lock, library, sized
from vram._prototypes import (
    EVENT_ALLOC,
    EVENT_FREE,
    EVENT_OOM,
    EVENT_SEGMENT_ALLOC,
    EVENT_SEGMENT_FREE,
    OK,
    STACKS_NONE,
    STACKS_PYTHON,
    Event,
    RecordOptions,
)
from vram._sizes import format_size
from vram._texts import tr
from vram.dry._placement import NoMemory, Placement, Segment
from vram.recording import _process

# Held during an operator, and while placements change. A block may die at any moment, also while another one is placed: in another thread,
# or in a garbage collection of the same one.
_one_at_a_time = threading.RLock()
# A process that is forked, such as the worker of a data loader, has only the thread that forked it: no other may hold the lock then.
os.register_at_fork(
    before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release, after_in_child=_one_at_a_time.release
)


@dataclass(frozen=True)
class Smaller:
    """What the program requests in turn where it cannot have an allocation.

    Attributes:
        sizes_bytes: Down to the least with which it runs.
        choice: The number of the choice: the next time that it makes the same, it begins with the size that it got.
    """

    sizes_bytes: tuple[int, ...]
    choice: int


class Tape:
    """A recording of made-up memory. One at a time, as there is one recorder.

    Args:
        total_bytes: What each device has; None: anything.
        devices: The number of devices.
        has_stacks: Record the Python stacks of allocations.
    """

    def __init__(
        self, path: Path, total_bytes: int | None = None, devices: int = 1, *, has_stacks: bool = False
    ) -> None:
        self.path = path
        self._devices = devices
        self._total_bytes = total_bytes
        # What the first device has in use besides what is on the tape, so far.
        self.outside_bytes: Callable[[], int] = lambda: 0
        self.refused_limit_bytes: int | None = None  # the limit at which a request failed
        # Of allocations that the program can do with less of, by their device and their number on it.
        self.smaller: dict[tuple[int, int], Smaller] = {}
        self._choices: dict[Hashable, int] = {}
        self._allocations: Counter[int] = Counter()  # of each device
        self.is_in_optimizer = False
        self.peak_outside_optimizer_bytes = 0  # requested, of the device with the most
        self._placements: dict[int, Placement] = {}
        self._is_changing = False  # a placement
        self._dead: deque[tuple[int, int, int, int]] = (
            deque()
        )  # device, address, bytes and stream of blocks that are to be freed
        options = sized(RecordOptions)
        options.stacks = STACKS_PYTHON if has_stacks else STACKS_NONE
        if library().vram_record_start(os.fsencode(path), ctypes.byref(options)) != OK:
            raise VramError(tr("no dry run: {}").format(_library.last_error()))
        try:
            self._begin(has_stacks=has_stacks)
        except BaseException:  # such as KeyboardInterrupt
            library().vram_record_stop()
            raise

    def _begin(self, *, has_stacks: bool) -> None:
        # Keeps the interpreter's lock: no other thread may come between the events of an operator.
        self._record, self._record_time, capture = (
            keeping_the_lock(library(), f"vram_{name}") for name in ("record_event", "record_time", "capture_stack")
        )
        self._stack: Callable[[], int] = capture if has_stacks else int
        self._is_open = True
        self._began_ns = time.time_ns()
        self.state_time(0)
        _process.describe()
        self.about("vram.dry_run", "1")
        _marks.recording_began()

    @property
    def allowed_bytes(self) -> int | None:
        """The smallest limit of the program's own for the segments of a device; None: it has set none."""
        limits = (placement.limit_bytes for placement in self._placements.values())
        return min((each for each in limits if each is not None), default=None)

    @property
    def devices(self) -> list[int]:
        """The devices whose requests were granted."""
        return sorted(self._allocations)

    @property
    def has_requests(self) -> bool:
        """Whether memory was requested, and granted or refused."""
        return bool(self._allocations) or self.refused_limit_bytes is not None

    def about(self, key: str, value: str) -> None:
        library().vram_record_about(key.encode(), value.encode(errors="replace"))

    def state_time(self, passed_ns: int) -> None:
        """What comes next happens this long after the beginning."""
        if self._is_open:
            self._record_time(self._began_ns + passed_ns)

    def placement(self, device: int) -> Placement:
        """Return where the blocks of a device lie.

        Raises:
            RuntimeError: There is no such device.
        """
        if device not in self._placements:
            if device >= self._devices:
                raise RuntimeError(
                    f"a dry run of {self._devices} GPU(s) has no device {device}; state world_size, or use device 0"
                )
            taken, returned = (
                partial(self._segment, kind, device) for kind in (EVENT_SEGMENT_ALLOC, EVENT_SEGMENT_FREE)
            )
            self._placements[device] = Placement(taken, returned, self._device_limit)
        return self._placements[device]

    def _device_limit(self) -> int | None:
        return None if self._total_bytes is None else max(0, self._total_bytes - self.outside_bytes())

    def empty_cache(self) -> None:
        with self._change():
            for placement in self._placements.values():
                placement.empty_cache()

    def _segment(self, kind: int, device: int, segment: Segment) -> None:
        self._emit(kind, device, segment.address, segment.size_bytes, segment.stream)

    def allocate(
        self, device: int, size_bytes: int, stream: int, needed_bytes: tuple[int, ...] = (), choice: Hashable = None
    ) -> int:
        """Return the address of a new block. If it cannot have it, the program requests `needed_bytes` in turn; `choice` is equal in calls that do so.

        Raises:
            torch.OutOfMemoryError: The device has a limit, and the block does not fit below it.
        """
        with self._change():
            return self._allocate(device, size_bytes, stream, needed_bytes, choice)

    def _allocate(
        self, device: int, size_bytes: int, stream: int, needed_bytes: tuple[int, ...], choice: Hashable
    ) -> int:
        placement = self.placement(device)
        try:
            address = placement.allocate(size_bytes, stream)
        except NoMemory as error:
            self.refused_limit_bytes = error.limit_bytes
            self._emit(EVENT_OOM, device, error.left_bytes, size_bytes, stream)
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {format_size(size_bytes)} in a dry run. The allocator may reserve "
                f"{format_size(error.limit_bytes)} of GPU {device}, and {format_size(placement.reserved.now)} are reserved, of which "
                f"{format_size(placement.allocated.now)} are allocated."
            ) from None
        if not self.is_in_optimizer:
            self.peak_outside_optimizer_bytes = max(self.peak_outside_optimizer_bytes, placement.requested.now)
        if needed_bytes:
            number = self._choices.setdefault(choice, len(self._choices))
            self.smaller[device, self._allocations[device]] = Smaller(needed_bytes, number)
        self._allocations[device] += 1
        self._emit(EVENT_ALLOC, device, address, size_bytes, stream, self._stack())
        return address

    def free(self, device: int, address: int, size_bytes: int, stream: int) -> None:
        self._dead.append((device, address, size_bytes, stream))
        self._free_dead()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """No other thread runs an operator or changes a placement in this ``with`` block. Blocks that die in others meanwhile are freed at its end."""
        try:
            with _one_at_a_time:
                yield
        finally:
            self._free_dead()

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        with self.alone():
            before, self._is_changing = self._is_changing, True
            try:
                yield
            finally:
                self._is_changing = before

    def _free_dead(self) -> None:
        """Free the blocks that died, unless a change is being made, in another thread or below: this is called after each."""
        while self._dead and _one_at_a_time.acquire(blocking=False):
            try:
                if self._is_changing:
                    return
                self._is_changing = True
                try:
                    while self._dead:
                        device, address, size_bytes, stream = self._dead.popleft()
                        self._emit(EVENT_FREE, device, address, size_bytes, stream)
                        self._placements[device].free(address)
                finally:
                    self._is_changing = False
            finally:
                _one_at_a_time.release()

    def _emit(self, kind: int, device: int, address: int, size_bytes: int, stream: int, stack: int = 0) -> None:
        if self._is_open:
            self._record(ctypes.byref(Event(kind, device, address, size_bytes, stream, stack)))

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
            raise VramError(tr("the trace of the dry run is incomplete: {}").format(_library.last_error()))

"""Where PyTorch's caching allocator puts blocks, with its default settings.

The trace of a dry run has these addresses and segments, so that it can be read like any recording. Replays compute what other
settings change; for the default settings they must agree with this, call by call, which a test checks.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from vram._library import keeping_the_lock, library
from vram._texts import tr
from vram.dry._arithmetic import round_up

BLOCK_BYTES = 512  # what sizes are rounded to
_MIB = 1 << 20
_MAX_SMALL, _SMALL_SEGMENT = _MIB, 2 * _MIB
_MIN_OWN_SEGMENT, _LARGE_SEGMENT, _SEGMENT_STEP = 10 * _MIB, 20 * _MIB, 2 * _MIB
# What a device may have without a limit: as much as a model of 10^12 parameters takes with AdamW in float32, and an eighth of the addresses that
# segments may have (kSegmentsTop of src/gpu/sim/address_space.hpp). A program that requests memory until none is left comes to an end.
MAX_BYTES = 16 << 40

Pool = tuple[int, bool]  # stream, and whether its requests are small


@dataclass(frozen=True)
class Segment:
    """Memory that the allocator takes from the device, or returns."""

    address: int
    size_bytes: int
    stream: int


class Counter:
    """Bytes now and at their peak."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def add(self, size_bytes: int) -> None:
        self.now += size_bytes
        self.peak = max(self.peak, self.now)


class NoMemory(Exception):
    """A request does not fit below the limit, and nothing is left to return."""

    def __init__(self, limit_bytes: int, left_bytes: int) -> None:
        super().__init__(limit_bytes, left_bytes)
        self.limit_bytes, self.left_bytes = limit_bytes, left_bytes


class _Block:
    __slots__ = ("address", "is_free", "next", "pool", "previous", "requested", "size")

    def __init__(self, pool: Pool, address: int, size: int) -> None:
        self.pool, self.address, self.size, self.requested = pool, address, size, 0
        self.is_free = False
        self.previous: _Block | None = None
        self.next: _Block | None = None


class _Addresses:
    """Where the driver would place segments. Which of two equal free blocks the allocator takes depends on it."""

    def __init__(self) -> None:
        # No other thread may come between the changes of an allocator's state.
        self._place, self._remove = (
            keeping_the_lock(library(), f"vram_segments_{name}") for name in ("place", "remove")
        )
        self._segments = library().vram_segments_open()
        if not self._segments:
            raise MemoryError
        closing = weakref.finalize(self, library().vram_segments_close, self._segments)
        closing.atexit = False  # daemon threads and functions of atexit may still use it

    def place(self, size_bytes: int) -> int:
        address = self._place(self._segments, size_bytes)
        if not address:
            raise MemoryError(
                tr("no range of {} bytes is left of the addresses of a dry run's segments").format(size_bytes)
            )
        return int(address)

    def remove(self, address: int) -> None:
        self._remove(self._segments, address)


class Placement:
    """The memory of one device.

    Args:
        on_taken: Called for each segment that is taken from the device.
        on_returned: Called for each one that is returned.
        device_limit: Returns what the device has left for all segments together; None: anything.

    Attributes:
        limit_bytes: What the program lets all segments have together; None: anything.
        requested, allocated, reserved: What PyTorch counts by these names.
        retries: How often everything unused was returned because a request did not fit below the limit.
        ooms: How often that did not suffice.
    """

    def __init__(
        self,
        on_taken: Callable[[Segment], None],
        on_returned: Callable[[Segment], None],
        device_limit: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.limit_bytes: int | None = None
        self._device_limit = device_limit
        self.requested, self.allocated, self.reserved = Counter(), Counter(), Counter()
        self.retries = self.ooms = 0
        self._on_taken, self._on_returned = on_taken, on_returned
        self._addresses = _Addresses()
        self._blocks: dict[int, _Block] = {}
        self._free: dict[Pool, list[tuple[int, int]]] = defaultdict(list)  # size and address, sorted

    def allocate(self, size_bytes: int, stream: int) -> int:
        """Return the address of a new block.

        Raises:
            NoMemory: The block does not fit below the limit.
        """
        size = round_up(size_bytes, BLOCK_BYTES)
        pool = (stream, size <= _MAX_SMALL)
        free = self._free[pool]
        found = bisect_left(free, (size, 0))
        if found < len(free):
            block = self._blocks[free.pop(found)[1]]
            block.is_free = False
        else:
            block = self._take_segment(pool, size)
        left = block.size - size
        if left >= BLOCK_BYTES if pool[1] else left > _MAX_SMALL:
            self._split(block, size)
        block.requested = size_bytes
        self.requested.add(size_bytes)
        self.allocated.add(block.size)
        return block.address

    def free(self, address: int) -> None:
        block = self._blocks[address]
        self.requested.add(-block.requested)
        self.allocated.add(-block.size)
        for neighbor in (block.previous, block.next):
            if neighbor is not None and neighbor.is_free:
                free = self._free[neighbor.pool]
                del free[bisect_left(free, (neighbor.size, neighbor.address))]
                first, second = (neighbor, block) if neighbor is block.previous else (block, neighbor)
                block = self._join(first, second)
        block.is_free = True
        insort(self._free[block.pool], (block.size, block.address))

    def empty_cache(self) -> None:
        """Return the segments without blocks in use: those of large requests first, each kind by stream and size."""
        for pool in sorted(self._free, key=lambda pool: (pool[1], pool[0])):
            kept = []
            for size, address in self._free[pool]:
                block = self._blocks[address]
                if block.previous is None and block.next is None:
                    del self._blocks[address]
                    self._addresses.remove(address)
                    self.reserved.add(-size)
                    self._on_returned(Segment(address, size, pool[0]))
                else:
                    kept.append((size, address))
            self._free[pool] = kept

    def _take_segment(self, pool: Pool, size: int) -> _Block:
        if pool[1]:
            taken = _SMALL_SEGMENT
        elif size < _MIN_OWN_SEGMENT:
            taken = _LARGE_SEGMENT
        else:
            taken = round_up(size, _SEGMENT_STEP)
        limits = self.limit_bytes, self._device_limit(), MAX_BYTES
        limit = min(each for each in limits if each is not None)
        if self.reserved.now + taken > limit:
            self.empty_cache()
            self.retries += 1
            if self.reserved.now + taken > limit:
                self.ooms += 1
                raise NoMemory(limit, max(0, limit - self.reserved.now))
        address = self._addresses.place(taken)
        block = self._blocks[address] = _Block(pool, address, taken)
        self.reserved.add(taken)
        self._on_taken(Segment(block.address, taken, pool[0]))
        return block

    def _split(self, block: _Block, size: int) -> None:
        rest = _Block(block.pool, block.address + size, block.size - size)
        rest.previous, rest.next, rest.is_free = block, block.next, True
        if block.next is not None:
            block.next.previous = rest
        block.next, block.size = rest, size
        self._blocks[rest.address] = rest
        insort(self._free[rest.pool], (rest.size, rest.address))

    def _join(self, first: _Block, second: _Block) -> _Block:
        first.size += second.size
        first.next = second.next
        if second.next is not None:
            second.next.previous = first
        del self._blocks[second.address]
        return first

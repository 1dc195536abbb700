"""Where PyTorch's caching allocator puts blocks, with its default settings, on a GPU that never runs out of memory.

The trace of a dry run has these addresses and segments, so that it can be read like any recording. Replays compute what other
settings and a limited GPU change; for the default settings they must agree with this, call by call, which a test checks.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict

_MIB = 1 << 20
BLOCK_BYTES = 512  # what PyTorch's allocator rounds sizes to
_MAX_SMALL, _SMALL_SEGMENT = _MIB, 2 * _MIB
_MIN_OWN_SEGMENT, _LARGE_SEGMENT, _SEGMENT_STEP = 10 * _MIB, 20 * _MIB, 2 * _MIB
_FIRST_ADDRESS = 1 << 40

Pool = tuple[int, bool]  # stream, and whether its requests are small


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


class _Block:
    __slots__ = ("address", "is_free", "next", "pool", "previous", "size")

    def __init__(self, pool: Pool, address: int, size: int) -> None:
        self.pool, self.address, self.size = pool, address, size
        self.is_free = False
        self.previous: _Block | None = None
        self.next: _Block | None = None


class Placement:
    """The memory of one device."""

    def __init__(self) -> None:
        self.reserved_bytes = 0
        self._next_address = _FIRST_ADDRESS
        self._blocks: dict[int, _Block] = {}
        self._free: dict[Pool, list[tuple[int, int]]] = defaultdict(list)  # size and address, sorted

    def allocate(self, size_bytes: int, stream: int) -> tuple[int, tuple[int, int] | None]:
        """Return the address of a new block; and address and size of the segment that was taken for it, if one was."""
        size = _round_up(size_bytes, BLOCK_BYTES)
        pool = (stream, size <= _MAX_SMALL)
        free, segment = self._free[pool], None
        found = bisect_left(free, (size, 0))
        if found < len(free):
            block = self._blocks[free.pop(found)[1]]
            block.is_free = False
        else:
            block = self._take_segment(pool, size)
            segment = (block.address, block.size)
        left = block.size - size
        if left >= BLOCK_BYTES if pool[1] else left > _MAX_SMALL:
            self._split(block, size)
        return block.address, segment

    def free(self, address: int) -> None:
        block = self._blocks[address]
        for neighbor in (block.previous, block.next):
            if neighbor is not None and neighbor.is_free:
                free = self._free[neighbor.pool]
                del free[bisect_left(free, (neighbor.size, neighbor.address))]
                first, second = (neighbor, block) if neighbor is block.previous else (block, neighbor)
                block = self._join(first, second)
        block.is_free = True
        insort(self._free[block.pool], (block.size, block.address))

    def _take_segment(self, pool: Pool, size: int) -> _Block:
        if pool[1]:
            taken = _SMALL_SEGMENT
        elif size < _MIN_OWN_SEGMENT:
            taken = _LARGE_SEGMENT
        else:
            taken = _round_up(size, _SEGMENT_STEP)
        block = self._blocks[self._next_address] = _Block(pool, self._next_address, taken)
        self._next_address += taken + _SEGMENT_STEP  # segments are no neighbors
        self.reserved_bytes += taken
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

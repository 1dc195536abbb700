"""A caching allocator of a few lines, so that the events and the segments of made-up snapshots agree.

It follows PyTorch's rules where they show in a recording: 512-byte rounding, small and large segments, best fit within
stream and pool, splitting, merging, pending frees, expandable segments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Frame = dict[str, Any]
Entry = dict[str, Any]

MIB = 1 << 20
ROUND = 512


@dataclass
class Block:
    address: int
    size: int
    requested: int = 0
    state: str = "inactive"
    frames: list[Frame] = field(default_factory=list)
    tenants: list[dict[str, Any]] = field(default_factory=list)  # latest first


@dataclass
class Segment:
    address: int
    size: int
    stream: int
    pool: tuple[int, int]
    small: bool
    expandable: bool
    frames: list[Frame]
    blocks: list[Block]


class TinyAllocator:
    def __init__(self, device: int, expandable: bool = False) -> None:
        self.device = device
        self.expandable = expandable
        self.segments: list[Segment] = []
        self.entries: list[Entry] = []
        self.time_us = 1_700_000_000_000_000 + device * 17
        self.next_address = 0x7F00_0000_0000 + device * 0x10_0000_0000

    def note(self, action: str, address: int, size: int, where: Segment | None, frames: list[Frame]) -> None:
        self.time_us += 3
        self.entries.append(
            {
                "action": action,
                "device_free" if action == "oom" else "addr": address,
                "size": size,
                "stream": where.stream if where else 0,
                "time_us": self.time_us,
                "pool_id": where.pool if where else (0, 0),
                "frames": frames,
            }
        )

    def alloc(self, size: int, frames: list[Frame], stream: int = 0, pool: tuple[int, int] = (0, 0)) -> int:
        rounded = max(ROUND, (size + ROUND - 1) // ROUND * ROUND)
        small = rounded <= MIB
        fitting = [
            (block.size, block.address, segment, block)
            for segment in self.segments
            if (segment.stream, segment.pool, segment.small) == (stream, pool, small)
            for block in segment.blocks
            if block.state == "inactive" and block.size >= rounded
        ]
        if fitting:
            *_, segment, block = min(fitting, key=lambda found: found[:2])
        else:
            segment, block = self.grow(rounded, small, stream, pool, frames)
        rest = block.size - rounded
        if rest >= ROUND if small or segment.expandable else rest > MIB:
            block.size = rounded
            at = segment.blocks.index(block) + 1
            segment.blocks.insert(at, Block(block.address + rounded, rest))
        block.requested, block.state, block.frames = size, "active_allocated", frames
        block.tenants.insert(0, {"addr": block.address, "real_size": size, "frames": frames})
        self.note("alloc", block.address, size, segment, frames)
        return block.address

    def grow(
        self, size: int, small: bool, stream: int, pool: tuple[int, int], frames: list[Frame]
    ) -> tuple[Segment, Block]:
        unit = 2 * MIB if small else 20 * MIB
        amount = (size + unit - 1) // unit * unit if small or size < 10 * MIB or self.expandable else size
        amount = (amount + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
        if self.expandable:
            for segment in self.segments:
                if (segment.stream, segment.pool, segment.small) == (stream, pool, small):
                    block = Block(segment.address + segment.size, amount)
                    segment.size += amount
                    segment.blocks.append(block)
                    self.note("segment_map", block.address, amount, segment, frames)
                    self.merge(segment)
                    return segment, segment.blocks[-1]
        block = Block(self.next_address, amount)
        segment = Segment(self.next_address, amount, stream, pool, small, self.expandable, frames, [block])
        self.next_address += 0x1000_0000
        self.segments.append(segment)
        self.note("segment_map" if self.expandable else "segment_alloc", block.address, amount, segment, frames)
        return segment, block

    def find(self, address: int) -> tuple[Segment, Block]:
        return next((s, b) for s in self.segments for b in s.blocks if b.address == address and b.state != "inactive")

    def free(self, address: int, frames: list[Frame], complete: bool = True) -> None:
        segment, block = self.find(address)
        block.state = "active_pending_free"
        self.note("free_requested", address, block.requested, segment, frames)
        if complete:
            self.complete(address, frames)

    def complete(self, address: int, frames: list[Frame]) -> None:
        segment, block = self.find(address)
        block.state = "inactive"
        self.note("free_completed", address, block.requested, segment, frames)
        block.frames = []
        self.merge(segment)

    def merge(self, segment: Segment) -> None:
        merged: list[Block] = []
        for block in segment.blocks:
            if merged and merged[-1].state == block.state == "inactive":
                merged[-1].size += block.size
                merged[-1].tenants += block.tenants
            else:
                merged.append(block)
        segment.blocks = merged

    def empty_cache(self, frames: list[Frame]) -> None:
        action = "segment_unmap" if self.expandable else "segment_free"
        for segment in list(self.segments):
            if all(block.state == "inactive" for block in segment.blocks):
                self.note(action, segment.address, segment.size, segment, frames)
                self.segments.remove(segment)

    def marker(self, action: str, size: int, frames: list[Frame], address: int = 0) -> None:
        self.note(action, address, size, None, frames)

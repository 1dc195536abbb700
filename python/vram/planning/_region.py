"""A part of a plan; without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CheckpointRegion:
    """Consecutive blocks that run again in backward, by their numbers.

    Attributes:
        keeps_products: Whether it keeps the results of matrix products, convolutions and attention. Such a region has one block and
            no region around it.
        parts: The regions inside, when it runs again.
    """

    first: int
    last: int
    keeps_products: bool = False
    parts: tuple[CheckpointRegion, ...] = ()

    def has(self, block: int) -> bool:
        return self.first <= block <= self.last

    def find(self, block: int) -> CheckpointRegion | None:
        return next((part for part in self.parts if part.has(block)), None)


def regions_of(count: int, length: int) -> tuple[CheckpointRegion, ...]:
    """Return regions of so many blocks each, one after the other; the last may have fewer."""
    return tuple(CheckpointRegion(i, min(i + length, count) - 1) for i in range(0, count, length))

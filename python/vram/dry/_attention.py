"""How FlashAttention divides a sequence among the processors of a GPU, by the heuristic that PyTorch calls it with."""

from __future__ import annotations

from typing import Any

from vram.dry._arithmetic import ceil_div, round_up

_ROWS = 64  # of queries that a block handles
_MAX_PARTS = 128
_WAVES = 0.8  # so full has the GPU to be that nothing is divided
_NEAR = 0.85  # of the best use of the processors: the fewest parts with as much are taken


def parts_bytes(query: Any, key: Any, dropout: float, processors: int) -> int:
    """Return the bytes of the results of all parts in float32, and of their sums; 0 if the sequence is not divided."""
    batch, heads, rows, width = (int(length) for length in query.shape)
    columns = 256 if width <= 64 else 128 if width <= 128 else 64
    parts = (
        1
        if dropout
        else _parts(batch * heads * ceil_div(rows, _ROWS), 2 * processors, ceil_div(int(key.shape[2]), columns))
    )
    rounded = round_up(width, 32) if width <= 192 else 256
    return 0 if parts == 1 else 4 * parts * batch * heads * rows * (rounded + 1)


def _parts(blocks: int, processors: int, columns: int) -> int:
    if blocks >= _WAVES * processors:
        return 1
    uses = {}
    for parts in range(1, min(_MAX_PARTS, processors, columns) + 1):
        # A number that gives no part fewer columns than the one before is left out.
        if parts == 1 or ceil_div(columns, parts) != ceil_div(columns, parts - 1):
            waves = blocks * parts / processors
            uses[parts] = waves / -(-waves // 1)
    best = max(uses.values())
    return next(parts for parts, use in uses.items() if use >= _NEAR * best)

"""Traces that differ from that of a dry run as little as the same program on a GPU does.

Where memory is scarce, PyTorch's allocator divides what it has differently if one block is a few KiB larger, and a program that runs with some
amount may need 5 % more. A dry run has the blocks of the GPU, but not every small one at the same place. So the least memory is that of several
traces, in which some blocks are a little larger.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from vram.dry import _program

VARIANTS = 8
# Of the blocks of this size, one of a hundred is larger, by at most 4 KiB. The four programs of bench/prediction that ran out of memory at what was
# promised without variants needed 2.4, 4.1, 4.2 and 5.5 % more; their variants need up to 2.4, 3.0, 6.4 and 5.5 %. Most other programs need the same.
_LARGE_BYTES, _SHARE, _MOST_BYTES, _STEP_BYTES = 1 << 20, 0.01, 4096, 512


def write(trace: Path, folder: Path) -> Iterator[Path]:
    """Write the variants of a trace into a folder, one after the other, as text."""
    lines = _lines(trace, folder)
    blocks = list(_large_blocks(lines))
    for seed in range(VARIANTS):
        chosen = random.Random(seed)
        varied = lines.copy()
        for numbers in blocks:
            if chosen.random() < _SHARE:
                more = chosen.randrange(0, _MOST_BYTES, _STEP_BYTES)
                for number in numbers:
                    event = json.loads(lines[number])
                    varied[number] = json.dumps({**event, "size_bytes": event["size_bytes"] + more}) + "\n"
        path = folder / f"varied-{seed}.jsonl"
        path.write_text("".join(varied))
        yield path


def _lines(trace: Path, folder: Path) -> list[str]:
    if trace.suffix == ".jsonl":
        return trace.read_text().splitlines(keepends=True)
    whole = folder / "whole.jsonl"
    _program.convert(trace, whole)
    lines = whole.read_text().splitlines(keepends=True)
    whole.unlink()
    return lines


def _large_blocks(lines: list[str]) -> Iterator[list[int]]:
    """Yield the lines of each large block: of its birth, and of its death if it dies."""
    living: dict[tuple[int, str], list[int]] = {}
    for number, line in enumerate(lines):
        event = json.loads(line)
        key = (event["device"], event["address"])
        if event["action"] == "alloc" and event["size_bytes"] >= _LARGE_BYTES:
            living[key] = [number]
        elif event["action"] == "free_completed" and key in living:
            yield [*living.pop(key), number]
    yield from living.values()

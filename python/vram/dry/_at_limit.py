"""The trace of a program on a GPU that it just fits: with how much memory it runs, where it can do with less than it asks for.

cuDNN has several plans for a convolution, and PyTorch takes the next one if the workspace of one cannot be had. So a trace has two kinds of
requests: those without which the program ends, and those that it can do with less of. Here, the latter are out-of-memory errors that the
program survives: the first plan's request, and those of later plans that need less, followed by the request of what it needs at least. They are
marked as a choice, so that a replay takes the first that it grants, and begins with it in the next equal call, as PyTorch does, which keeps the plan.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vram.dry import _program

if TYPE_CHECKING:  # with PyTorch, which this package can be imported without
    from vram.dry._tape import Smaller

# Up to this size, PyTorch's allocator takes another kind of segments, where a request would not fit into what a larger one has left. What
# such a workspace adds to the memory of a full GPU is negligible.
_SMALL_BYTES = 1 << 20
# An error counts as survived if an allocation follows it, so the trace ends with a small one, and a choice with one even if a plan needs nothing.
_LEAST_BYTES = 8


def write(trace: Path, path: Path, smaller: Mapping[tuple[int, int], Smaller]) -> None:
    """Write the trace as it would be on a full GPU.

    Args:
        trace: A finished dry run.
        path: The file to write: ``.jsonl``, as ``vram convert`` writes it.
        smaller: What the program requests in turn if it cannot have an allocation, by the device and its number on it.
    """
    whole = path.with_suffix(".whole.jsonl")
    _program.convert(trace, whole)
    with whole.open() as lines, path.open("w") as file:
        for number, event in enumerate(_rewritten(map(json.loads, lines), smaller)):
            file.write(json.dumps({**event, "index": number}) + "\n")
    whole.unlink()


def _rewritten(
    events: Iterator[dict[str, Any]], smaller: Mapping[tuple[int, int], Smaller]
) -> Iterator[dict[str, Any]]:
    numbers: Counter[int] = Counter()
    changed: dict[tuple[int, str], int] = {}  # bytes of the blocks with others, by device and address
    last: dict[int, dict[str, Any]] = {}
    for event in events:
        device, key = event["device"], (event["device"], event["address"])
        if event["action"] == "alloc":
            last[device] = event
            others = smaller.get((device, numbers[device]))
            numbers[device] += 1
            if others is not None:
                size_bytes, mark = event["size_bytes"], {"category": "choice", "user_metadata": str(others.choice)}
                *tried, least = (size_bytes, *others.sizes_bytes)
                changed[key] = max(least, _LEAST_BYTES)
                for each in tried:
                    if each > _SMALL_BYTES or each == size_bytes:
                        yield {**event, **mark, "action": "oom", "address": "0x0", "size_bytes": each}
                event = {**event, **mark, "size_bytes": changed[key]}
        elif event["action"] == "free_completed" and key in changed:
            event = {**event, "size_bytes": changed.pop(key)}
        yield event
    for device, event in last.items():
        address = f"0x{(1 << 62) + (device << 32):x}"
        yield {**event, "action": "alloc", "address": address, "size_bytes": _LEAST_BYTES}

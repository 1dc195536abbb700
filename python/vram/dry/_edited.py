"""The trace of a dry run with blocks of other sizes: what a model of a change predicts, as a file that every command reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vram.dry import _program
from vram.dry._placement import Placement, Segment

# Bytes of a block, from its name (or its scope, without a category), its category and its bytes; 0: the block is not there.
Resize = Callable[[str, str, int], int]


class _Trace:
    """Events on their way from one file to another."""

    def __init__(self, events: list[dict[str, Any]], resize: Resize) -> None:
        self._resize = resize
        self._names = _names(events)
        self._placements: dict[int, Placement] = {}
        self._segments: list[tuple[str, Segment]] = []  # taken and returned since they were last written
        self._moved: dict[tuple[int, str], tuple[int, int]] = {}  # address and bytes; without bytes: not there
        self._events = events

    def rewritten(self) -> Iterator[dict[str, Any]]:
        # The requests of a choice (_at_limit.py) that come directly before its allocation.
        tried: list[dict[str, Any]] = []
        for number, event in enumerate(self._events):
            action, key = event["action"], (event["device"], event["address"])
            if action == "alloc":
                # What has no name of its own is in a scope of the program.
                name, category = self._names.get(number, (event["user_metadata"] or "", ""))
                yield from self._placed(event, self._resize(name, category, event["size_bytes"]), tried)
                tried = []
            elif action in ("free_completed", "annotate"):
                address, size_bytes = self._moved[key]
                if size_bytes:
                    yield {**event, "address": hex(address), "size_bytes": size_bytes}
                    if action == "free_completed":
                        self._placement(event["device"]).free(address)
            elif action == "oom" and event["category"] == "choice":
                tried.append(event)
            elif action == "oom":  # that the program survives
                yield event
            elif action == "segment_free":  # the program empties the cache; once for all segments in a row
                self._placement(event["device"]).empty_cache()
                yield from self._of_segments(event)

    def _placed(
        self, event: dict[str, Any], size_bytes: int, tried: Sequence[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        address = 0
        if size_bytes:
            address = self._placement(event["device"]).allocate(size_bytes, event["stream"])
            yield from self._of_segments(event)
            yield from tried
            yield {**event, "address": hex(address), "size_bytes": size_bytes}
        self._moved[event["device"], event["address"]] = address, size_bytes

    def _placement(self, device: int) -> Placement:
        if device not in self._placements:
            self._placements[device] = Placement(
                lambda taken: self._segments.append(("segment_alloc", taken)),
                lambda returned: self._segments.append(("segment_free", returned)),
            )
        return self._placements[device]

    def _of_segments(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The segments that were taken and returned since, as events at the time of another."""
        for action, segment in self._segments:
            place = {"address": hex(segment.address), "size_bytes": segment.size_bytes, "stream": segment.stream}
            yield {**event, "action": action, **place, "user_metadata": None}
        self._segments.clear()


def _names(events: list[dict[str, Any]]) -> dict[int, tuple[str, str]]:
    """Return the last name and category of each block that has one, by the number of its allocation."""
    born: dict[tuple[int, str], int] = {}
    names: dict[int, tuple[str, str]] = {}
    for number, event in enumerate(events):
        key = (event["device"], event["address"])
        if event["action"] == "alloc":
            born[key] = number
        elif event["action"] == "annotate" and key in born:
            names[born[key]] = event["user_metadata"], event["category"]
    return names


def write(trace: Path, path: Path, resize: Resize, extra_bytes: int = 0) -> None:
    """Write the trace with other sizes of blocks, placed again as PyTorch's allocator would.

    Args:
        trace: A finished dry run.
        path: The file to write: ``.jsonl``, as ``vram convert`` writes it.
        resize: The new sizes.
        extra_bytes: Of a block that is there all the time.
    """
    whole = path.with_suffix(".whole.jsonl")
    _program.convert(trace, whole)
    with whole.open() as lines:
        events = [json.loads(line) for line in lines]
    whole.unlink()
    if extra_bytes:
        first = next(event for event in events if event["action"] == "alloc")
        events.insert(
            0, {**first, "address": "extra", "size_bytes": extra_bytes, "user_metadata": "gathered parameters"}
        )
    with path.open("w") as file:
        for number, event in enumerate(_Trace(events, resize).rewritten()):
            file.write(json.dumps({**event, "index": number}) + "\n")

"""The convolutions among measured calls, with the workspaces that they took."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fit import argument, flat, load

from vram.dry._convolutions import copy_bytes
from vram.dry._workspaces import DATA, FORWARD, WEIGHT

PLAIN = ("conv1d", "conv2d", "conv2d_last", "conv3d", "conv3d_last")


@dataclass(frozen=True)
class Measured:
    """One direction of a measured convolution.

    Attributes:
        group: The file of `kernels.py`, or "programs".
        is_for_choosing: Rules may be chosen with it.
        call: The arguments of Workspaces.bytes_of().
    """

    group: str
    is_for_choosing: bool
    call: tuple[Any, ...]
    workspace_bytes: int


def measured_calls(kernels: Path, measured: Path) -> Iterator[Measured]:
    """Yields the convolutions in the folders that kernels.py and measure.py wrote; those of groups with even numbers are for choosing."""
    for path in sorted(kernels.glob("*conv*.json.xz")):
        name = path.name.removesuffix(".json.xz")
        number = re.fullmatch(r"(?:sampled_conv.d|network_conv)_(\d+)", name)
        if number or name in PLAIN:
            is_even = number is None or int(number[1]) % 2 == 0
            yield from (
                each for row in load(path)["rows"] if row["run"] == 1 for each in _directions(name, is_even, row)
            )
    for path in sorted((measured / "journal").glob("*.json.xz")):
        found = load(path)
        for row in found.get("journal", {"kinds": []})["kinds"]:
            yield from _directions("programs", found["half"] == "choose", row)


def _directions(group: str, is_for_choosing: bool, row: dict[str, Any]) -> Iterator[Measured]:
    if row["op"] not in ("aten.convolution.default", "aten.convolution_backward.default") or "error" in row:
        return
    arguments = argument(row["args"])
    if row["op"] == "aten.convolution.default":
        x, weight, _, *how, _, groups = arguments
        y, wanted = flat(argument(row["out"]))[0], [FORWARD]
    else:
        y, x, weight, _, *how, _, groups, mask = arguments
        wanted = [name for name, is_wanted in zip((DATA, WEIGHT), mask[:2], strict=True) if is_wanted]
    for direction, temporaries in zip(wanted, _segments(row)[1:], strict=False):
        took = max(0, sum(temporaries) - copy_bytes(x if direction == WEIGHT else weight, x, weight))
        yield Measured(group, is_for_choosing, (direction, x, weight, y, *how, groups), took)


def _segments(row: dict[str, Any]) -> list[list[int]]:
    """Returns the sizes of the temporaries before the first result of a call, between the first and the second, and so on."""
    made: list[tuple[int, bool]] = []
    live: list[int] = []
    for event in row.get("events", []):
        size = event[0] if isinstance(event, list) else event
        if size > 0:
            live.append(len(made))
            made.append((size, False))
        elif fitting := [index for index in live if made[index][0] == -size]:
            live.remove(fitting[-1])
            made[fitting[-1]] = (-size, True)
    found: list[list[int]] = [[]]
    for size, is_freed in made:
        if is_freed:
            found[-1].append(size)
        else:
            found.append([])
    return found

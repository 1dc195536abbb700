"""Estimates of the workspace of a convolution, without asking cuDNN: which of its engines takes the call, learned from cuDNN's own answers.

Each engine has a workspace that is an exact function of the call: copies of operands in the layout of the tensor cores, and partial sums. Which
engine takes a call, and into how many parts it splits the sums, is the choice of cuDNN's heuristics, which are not published. Decision trees
approximate it; the median of their sizes counts. bench/prediction/convolutions.py learns them.

A file of `kernels/` has for each direction:

- `engines`: for each kind of engine the copies that it makes, a number of `sums` for each signature of a call (its layout, and which of its sizes
  need padding). For signatures that were not seen, these are the copies `t`.
- `labels`: for each number of a leaf the engine, and what it needs besides copies, such as "24 p".
- `trees`: the nodes of a tree level by level, as two lists: 1 + the number of the measure that is compared, or 0 for a leaf; and the largest value
  for which the first child is next, or the label of the leaf. The children of a node follow those of all nodes with children before it.
"""

from __future__ import annotations

import functools
import json
import lzma
import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from vram.dry._arithmetic import ceil_div, round_up

FORWARD, DATA, WEIGHT = DIRECTIONS = ("forward", "data", "weight")
_FOLDER = Path(__file__).parent / "kernels"
# cuDNN pads the channels of its copies to this many bytes.
_ALIGNMENT = 16
# What a plan with a workspace needs in addition, for most plans.
_HEADER_BYTES = 16
# The unit of partial sums of the newer engines: a tile of 64 x 64 numbers of 4 bytes.
_TILE_BYTES = 64 * 64 * 4
# Streaming multiprocessors of the GPUs whose answers were learned.
_PROCESSORS = 132
_GCD = 64
_DTYPES = ("float32", "bfloat16", "float16")
_TILES = ((64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256), (256, 64))


def _sized(values: Sequence[int]) -> tuple[int, int, int]:
    """Return depth, height and width of an image, in which those that it lacks are 1."""
    depth, height, width = (1,) * (3 - len(values)) + tuple(values)
    return depth, height, width


@functools.lru_cache(maxsize=4096)
def measures(
    direction: str, dtype: str, is_last: bool, input: tuple[int, ...],  # noqa: A002
    weight: tuple[int, ...], output: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
) -> Mapping[str, int]:  # fmt: skip
    """Return the numbers by which trees decide, the signature, and the parts of sums.

    The shapes are those of a plain convolution. The parts in bytes are `x`, `w` and `y`, the copies of the operands with padded channels; `x0`,
    `w0` and `y0`, the same without padding; `xg` and `yg`, with the channels of each group padded; and `t`, the copies that are needed where an
    engine reads and writes channels last and padded. `p` is the weight's gradient in float32 with padded channels, `p0` without, `np` one of these for each
    image, `o` the result in float32, and `q` a tile of partial sums.
    """
    batch, ins, outs = input[0], input[1], output[1]
    group_ins = weight[1]
    groups = ins // group_ins
    group_outs = outs // groups
    x_points, y_points, k_points = (math.prod(shape[2:]) for shape in (input, output, weight))
    rows, columns, depth = {
        FORWARD: (batch * y_points, group_outs, group_ins * k_points),
        DATA: (batch * x_points, group_ins, group_outs * k_points),
        WEIGHT: (group_outs, group_ins * k_points, batch * y_points),
    }[direction]
    kernel, x_sizes, y_sizes = (_sized(shape[2:]) for shape in (weight, input, output))
    parts = _parts(4 if dtype == "float32" else 2, is_last, batch, ins, outs, groups, x_points, y_points, k_points)
    found = {
        **parts,
        "o": 4 * rows * columns * groups, "q": _TILE_BYTES, "dtype": _DTYPES.index(dtype), "is_last": int(is_last),
        "rank": len(input) - 2 if len(input) > 3 else 2, "batch": batch, "ins": ins, "outs": outs, "groups": groups, "group_ins": group_ins,
        "group_outs": group_outs, "kernel": k_points, "kernel_max": max(kernel), "dilation": max(dilation), "dilation_width": dilation[-1],
        "strides": math.prod(stride), "x_points": x_points, "y_points": y_points, "batch_x": batch * x_points, "batch_y": batch * y_points,
        "pads": parts["signature"] >> 2 & 3, "patches": int(_sized(stride) == kernel), "depth": ceil_div(depth, 64),
    }  # fmt: skip
    pads = (0,) * (3 - len(padding)) + padding
    for name, values in (
        ("kernel", kernel),
        ("x", x_sizes),
        ("y", y_sizes),
        ("stride", _sized(stride)),
        ("padding", pads),
    ):
        found |= {f"{name}_{dimension}": value for dimension, value in zip(("depth", "height", "width"), values)}
    for name, value in (("ins", group_ins), ("outs", group_outs), ("x_width", x_sizes[2]), ("y_width", y_sizes[2]), ("x_points", x_points),
                        ("y_points", y_points), ("batch", batch)):  # fmt: skip
        found[f"{name}_gcd"] = math.gcd(value, _GCD)
    for height, width in _TILES:
        found[f"tiles_{height}_{width}"] = ceil_div(rows, height) * ceil_div(columns, width) * groups
    for side in (64, 128):
        found[f"tiles_of_kernel_{side}"] = ceil_div(group_outs, side) * ceil_div(group_ins, side) * k_points * groups
    tiles = found["tiles_128_128"]
    return found | {"last_wave": tiles % _PROCESSORS, "splits": _PROCESSORS // tiles, "depth_of_tile": depth // tiles}


def _parts(
    element_bytes: int, is_last: bool, batch: int, ins: int, outs: int, groups: int, x_points: int, y_points: int, k_points: int
) -> dict[str, int]:  # fmt: skip
    """Return the parts that do not depend on the direction, and the signature."""
    unit = _ALIGNMENT // element_bytes
    group_ins, group_outs = ins // groups, outs // groups
    padded_ins, padded_outs = round_up(group_ins, unit), round_up(group_outs, unit)
    pads_ins, pads_outs = padded_ins != group_ins, padded_outs != group_outs
    w_numel, w0_numel = padded_ins * padded_outs * groups * k_points, outs * group_ins * k_points
    found = {
        "x": batch * round_up(ins, unit) * x_points * element_bytes, "x0": batch * ins * x_points * element_bytes,
        "xg": batch * padded_ins * groups * x_points * element_bytes, "w": w_numel * element_bytes, "w0": w0_numel * element_bytes,
        "y": batch * round_up(outs, unit) * y_points * element_bytes, "y0": batch * outs * y_points * element_bytes,
        "yg": batch * padded_outs * groups * y_points * element_bytes, "p": 4 * w_numel, "p0": 4 * w0_numel, "np": 4 * batch * w0_numel,
    }  # fmt: skip
    found["t"] = (
        found["xg"] * (pads_ins or (not is_last and x_points > 1))
        + found["w"] * (pads_ins or pads_outs or (not is_last and k_points > 1))
        + found["yg"] * (pads_outs or (not is_last and y_points > 1))
    )
    points = (k_points == 1, x_points == 1, y_points == 1)
    flags = (is_last, element_bytes == 2, pads_ins, pads_outs, *points, ins == 1, outs == 1, groups > 1)
    return found | {"signature": sum(flag << i for i, flag in enumerate(flags))}


# The measures that are no decisions of trees.
PARTS = ("x", "x0", "xg", "w", "w0", "y", "y0", "yg", "p", "p0", "np", "o", "q", "t", "signature")


def size_of(text: str, measured: Mapping[str, int]) -> int:
    """Return the bytes of a sum such as "x + w + 7 p", in which a bare number is bytes."""
    total = 0
    for term in text.split(" + ") if text else ():
        count, _, name = term.rpartition(" ")
        total += int(name) if name.isdecimal() else (int(count) if count else 1) * measured[name]
    return total


class _Tree:
    """A tree as a file has it, with the number of the first child of each node."""

    def __init__(self, splits: Sequence[int], values: Sequence[int]) -> None:
        self._splits, self._values = splits, values
        self._children = [2 * count - 1 for count in accumulate(map(bool, splits))]

    def label(self, measured: Sequence[int]) -> int:
        node = 0
        while split := self._splits[node]:
            node = self._children[node] + (measured[split - 1] > self._values[node])
        return self._values[node]


class _Direction:
    """What a file has for one direction."""

    def __init__(self, data: Mapping[str, Any], sums: Sequence[str]) -> None:
        self._engines = [{signature: sums[copies] for signature, copies in zip(*lists)} for lists in data["engines"]]
        self._labels: list[tuple[int, str]] = data["labels"]
        self._trees = [_Tree(*lists) for lists in data["trees"]]

    def workspace(self, values: Sequence[int], measured: Mapping[str, int]) -> int:
        return statistics.median_low(self._size(tree.label(values), measured) for tree in self._trees)

    def _size(self, label: int, measured: Mapping[str, int]) -> int:
        engine, extra = self._labels[label]
        copies = self._engines[engine].get(measured["signature"], "t")
        return size_of(copies, measured) + size_of(extra, measured)


class Estimates:
    """The estimates of one file. Each direction is prepared when it is used for the first time."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._names: list[str] = data["measures"]
        self._data = data
        self._directions: dict[str, _Direction] = {}

    @classmethod
    @functools.cache
    def load(cls, name: str) -> Estimates:
        """Read a file of `kernels/`, once."""
        return cls(json.loads(lzma.decompress((_FOLDER / name).read_bytes())))

    def workspace(self, direction: str, measured: Mapping[str, int]) -> int:
        """Return the median of the bytes that the trees lead to."""
        if direction not in self._directions:
            self._directions[direction] = _Direction(self._data["directions"][direction], self._data["sums"])
        found = self._directions[direction].workspace([measured[name] for name in self._names], measured)
        return found + _HEADER_BYTES if found else 0

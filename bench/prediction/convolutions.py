"""Learns which workspaces cuDNN chooses for convolutions, from measured calls, and shows how exact the trees are.

    python bench/prediction/convolutions.py KERNELS MEASURED --write python/vram/dry/kernels/convolutions-2.11.json
    python bench/prediction/convolutions.py KERNELS MEASURED [--odd]

KERNELS and MEASURED are folders that kernels.py and measure.py wrote. The trees are learned from the groups of convolutions with even numbers,
those without numbers, and the programs of `choose`. Without --write, the trees in use are compared with these calls, or with the groups with
odd numbers (--odd), which no tree was learned from. Needs NumPy.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fit import argument, flat, load

from vram.dry import _convolutions
from vram.dry._convolutions import DATA, FORWARD, WEIGHT, Workspaces, copy_bytes, measures_of

PLAIN = ("conv1d", "conv2d", "conv2d_last", "conv3d", "conv3d_last")
PARTS = (
    "0",
    "x",
    "w",
    "y",
    "x + w",
    "x + y",
    "w + y",
    "x + w + y",
    "pad",
    "x0 + w0",
    "w0 + y0",
    "x0 + y0",
    "x0 + w0 + y0",
)
SUMS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 19, 21, 23, 26, 28, 32, 40, 48, 56, 64, 74, 96, 112, 128)
EXTRA = (
    *(f"{count} p" for count in SUMS),
    "8 bp",
    *(str(kib << 10) for kib in (256, 512, 1024, 2048, 3072, 4096, 6144, 7168, 8192)),
)
SIZES = [*PARTS, *(extra if part == "0" else f"{part} + {extra}" for part in PARTS for extra in EXTRA)]
NEGLIGIBLE = 2048
TREES, DEPTH, LEAF, GAIN, SHARE, LIMITS = 7, 18, 2, 0.03, 0.4, 40
# Random shapes are many, those of real networks few.
PROGRAM_WEIGHT = 3
COLUMNS = f"{'calls':26}{'calls':>6}{'exact':>7}{'≤ 1 %':>7}{'mean':>7}{'p95':>7}{'Σ|error|/Σ':>12}"


@dataclass
class Direction:
    """One direction of a measured convolution."""

    name: str
    group: str
    measured: dict[str, int]
    workspace: int

    @property
    def live(self) -> int:
        return self.measured["x0"] + self.measured["w0"] + self.measured["y0"]


def segments(row: dict[str, Any]) -> list[list[int]]:
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


def directions(row: dict[str, Any], group: str) -> Iterator[Direction]:
    args = argument(row["args"])
    if row["op"] == "aten.convolution.default":
        x, w, _, stride, padding, dilation, transposed, _, groups = args
        y, wanted = flat(argument(row["out"]))[0], [FORWARD]
    else:
        y, x, w, _, stride, padding, dilation, transposed, _, groups, mask = args
        wanted = [name for name, is_wanted in zip((DATA, WEIGHT), mask[:2], strict=True) if is_wanted]
    copied = {FORWARD: w, DATA: w, WEIGHT: x}
    for name, temporaries in zip(wanted, segments(row)[1:], strict=False):
        turned, measured = measures_of(name, x, w, y, stride, padding, dilation, transposed, groups)
        if measured:
            yield Direction(turned, group, dict(measured), max(0, sum(temporaries) - copy_bytes(copied[name], x, w)))


def rows(kernels: Path, measured: Path, odd: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(kernels.glob("*conv*.json.xz")):
        name = path.name.removesuffix(".json.xz")
        number = re.fullmatch(r"(?:sampled_conv.d|network_conv)_(\d+)", name)
        if int(number[1]) % 2 == odd if number else name in PLAIN and not odd:
            yield from ((name, row) for row in load(path)["rows"] if row["run"] == 1)
    for path in () if odd else sorted((measured / "journal").glob("*.json.xz")):
        found = load(path)
        if found["half"] == "choose":
            yield from (("programs", row) for row in found.get("journal", {"kinds": []})["kinds"])


def calls(kernels: Path, measured: Path, odd: bool) -> Iterator[Direction]:
    for group, row in rows(kernels, measured, odd):
        if row["op"] in ("aten.convolution.default", "aten.convolution_backward.default") and "error" not in row:
            yield from directions(row, group)


def costs(found: list[Direction]) -> Any:
    """Returns for each call and each size its error relative to the call's memory; large calls weigh more."""
    sizes = np.array(
        [[_convolutions.size_of(size, call.measured) for size in SIZES] for call in found], dtype=np.float64
    )
    workspaces = np.array([call.workspace for call in found], dtype=np.float64)
    live = np.array([call.live for call in found], dtype=np.float64)
    errors = np.abs(sizes - workspaces[:, None])
    errors[errors < NEGLIGIBLE] = 0
    weights = np.sqrt(np.clip(live / 2e8, 0.01, 1))
    weights *= [PROGRAM_WEIGHT if call.group == "programs" else 1 for call in found]
    return (errors / (live + workspaces / 2 + 1e6)[:, None] * weights[:, None]).astype(np.float32)


class Learner:
    """Grows a tree: each node takes the split, of a random share of the measures, after which one size for each side costs least."""

    def __init__(self, values: Any, cost: Any, seed: int) -> None:
        self._values, self._cost, self._random = values, cost, np.random.RandomState(seed)

    def grow(self, chosen: Any, depth: int = 0) -> Any:
        cost = self._cost[chosen]
        total = cost.sum(0)
        best = int(total.argmin())
        if depth >= DEPTH or len(chosen) < 2 * LEAF or total[best] <= GAIN:
            return best
        # Only sizes that are best for a call, or among the best for all, can be best for a side.
        near = np.unique(np.concatenate([cost.argmin(1), np.argsort(total)[:40]]))
        limit, found = total[best] - GAIN, None
        count = self._values.shape[1]
        for measure in self._random.permutation(count)[: int(SHARE * count)]:
            split = self._split(self._values[chosen, measure], cost[:, near])
            if split and split[0] < limit:
                limit, found = split[0], (int(measure), split[1])
        if found is None:
            return best
        below = self._values[chosen, found[0]] <= found[1]
        return [*found, self.grow(chosen[below], depth + 1), self.grow(chosen[~below], depth + 1)]

    @staticmethod
    def _split(values: Any, cost: Any) -> tuple[float, int] | None:
        """Returns the least cost of two sides and the largest value of the first one."""
        order = np.argsort(values, kind="stable")
        values = values[order]
        ends = np.nonzero(values[1:] > values[:-1])[0]
        ends = ends[(ends + 1 >= LEAF) & (ends + 1 <= len(values) - LEAF)]
        if not len(ends):
            return None
        if len(ends) > LIMITS:
            ends = ends[np.linspace(0, len(ends) - 1, LIMITS).astype(int)]
        below = np.cumsum(np.add.reduceat(cost[order], np.concatenate([[0], ends + 1]), axis=0), 0)
        both = below[:-1].min(1) + (below[-1] - below[:-1]).min(1)
        best = int(both.argmin())
        return float(both[best]), int((values[ends[best]] + values[ends[best] + 1]) // 2)


def learned(found: list[Direction]) -> dict[str, Any]:
    names = list(found[0].measured)
    trees: dict[str, list[Any]] = {}
    for name in _convolutions.DIRECTIONS:
        chosen = [call for call in found if call.name == name]
        values = np.array([[call.measured[measure] for measure in names] for call in chosen], dtype=np.int64)
        cost = costs(chosen)
        trees[name] = [Learner(values, cost, seed).grow(np.arange(len(chosen))) for seed in range(TREES)]
    used = sorted({leaf for each in trees.values() for tree in each for leaf in leaves(tree)})
    numbers = {leaf: number for number, leaf in enumerate(used)}
    return {"measures": names, "sizes": [SIZES[leaf] for leaf in used],
            "trees": {name: [renamed(tree, numbers) for tree in each] for name, each in trees.items()}}  # fmt: skip


def leaves(tree: Any) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        yield from leaves(tree[2])
        yield from leaves(tree[3])


def renamed(tree: Any, numbers: dict[int, int]) -> Any:
    return numbers[tree] if isinstance(tree, int) else [*tree[:2], renamed(tree[2], numbers), renamed(tree[3], numbers)]


def written(data: dict[str, Any], count: int) -> str:
    """Returns the file, with one tree a line."""
    about = (f"Workspaces of cuDNN's convolutions with PyTorch 2.11 (CUDA 13.0) on an H200 and an H100; learned from {count} measured calls by "
             "bench/prediction/convolutions.py. vram/dry/_convolutions.py describes the form.")  # fmt: skip

    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    trees = ",\n    ".join(
        f"{line(name)}: [\n      " + ",\n      ".join(map(line, each)) + "]" for name, each in data["trees"].items()
    )
    return (f'{{\n  "about": {json.dumps(about)},\n  "measures": {line(data["measures"])},\n  "sizes": {line(data["sizes"])},\n'
            f'  "trees": {{\n    {trees}}}\n}}\n')  # fmt: skip


def show(found: list[Direction], workspaces: Workspaces) -> None:
    """Prints errors by kind of call: exact ones (2 KiB), those up to 1 % of operands and workspace, mean and 95th percentile, and the sum."""
    lines: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for call in found:
        pair = workspaces.predicted(call.name, call.measured), call.workspace, call.live
        kind = "half" if call.measured["is_half"] else "float32"
        lines[f"{call.group.rpartition('_')[0] or call.group} {call.name}"].append(pair)
        lines[f"all {call.name}"].append(pair)
        lines[f"all {call.name} {kind}"].append(pair)
        if call.live >= 100 << 20:
            lines[f"≥ 100 MiB {call.name} {kind}"].append(pair)
    print(COLUMNS)
    for name, pairs in sorted(lines.items()):
        errors = np.array([abs(a - b) for a, b, _ in pairs], dtype=np.float64)
        relative = errors / np.array([b + c for _, b, c in pairs])
        total = sum(b for _, b, _ in pairs)
        print(f"{name:26}{len(pairs):6}{np.mean(errors < NEGLIGIBLE):7.1%}{np.mean(relative <= 0.01):7.1%}{relative.mean():7.2%}"
              f"{np.quantile(relative, 0.95):7.1%}{errors.sum() / max(1, total):12.1%}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--odd", action="store_true")
    parser.add_argument("--trees", default="convolutions-2.11.json")
    wanted = parser.parse_args()
    found = list(calls(wanted.kernels, wanted.measured, wanted.odd))
    if wanted.write and not wanted.odd:
        wanted.write.write_text(written(learned(found), len(found)))
        return
    show(found, Workspaces.load(wanted.trees))


if __name__ == "__main__":
    main()

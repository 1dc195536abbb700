"""Learns which workspaces cuDNN chooses for convolutions, from its own answers, and shows how exact the trees are.

    python bench/prediction/convolutions.py learn ANSWERS… --measured KERNELS MEASURED --write FILE [--jobs 2] [--only-some]
    python bench/prediction/convolutions.py show ANSWERS… [--jobs 2]

ANSWERS are files that plans_sampled.py wrote, KERNELS and MEASURED folders of kernels.py and measure.py. The trees are learned from groups with even
numbers, those from 1,000,000 on and the programs of `choose`; --only-some leaves every fifth group of answers out, for choosing how trees grow. `show` compares
the trees in use with the other groups, which no tree was learned from, less the calls that the former groups have as well. Needs NumPy and Numba.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from engines import Calls, Labels, labelled
from measured_calls import measured_calls

from vram.dry._convolutions import plain_call
from vram.dry._workspaces import DIRECTIONS, PARTS, Estimates, measures

NAME = "convolutions-2.11.json.xz"
TREES = 9
# A workspace is exact if it is this close: some plans need more than the header that is assumed.
NEGLIGIBLE_BYTES = 2048
LARGE_BYTES = 100 << 20
FIRST_OF_MORE = 1_000_000  # groups from here on are learned from, whatever their number
COLUMNS = f"{'calls of groups that are not learned from':50}{'number':>8}{'exact':>8}{'≤ 1 %':>8}{'mean':>8}{'95 %':>8}"
PART = 200
MEASURED_GROUP = 2  # which is even, and not among those that --only-some leaves out
# Calls of programs and of sampled layers are rarer than those of networks, and closer to what is asked.
MEASURED_WEIGHT = 3.0


def _lines(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        with lzma.open(path, "rt") as file:
            yield from file


def _measured(lines: list[str]) -> tuple[list[str], list[list[Any]]]:
    """Returns the names of measures, and a row for each answer: direction, group, family, engine, workspace, measures."""
    rows = []
    names: list[str] = []
    for line in lines:
        group, family, dtype, layers = json.loads(line)
        for x, weight, y, stride, padding, dilation, is_last, answers in layers:
            shapes = tuple(map(tuple, (x, weight, y, stride, padding, dilation)))
            for direction, answer in answers.items():
                if not answer:
                    continue
                name = next(each for each in DIRECTIONS if each[0] == direction)
                found = measures(name, dtype, bool(is_last), *shapes)
                names = names or list(found)
                rows.append([name, group, family, *answer[1:3], [*found.values()]])
    return names, rows


def _of_measured(kernels: Path, measured: Path) -> Iterator[tuple[list[str], list[list[Any]]]]:
    """Yields the same for measured calls, whose engines are not known."""
    for each in measured_calls(kernels, measured):
        plain = plain_call(*each.call) if each.is_for_choosing else None
        if plain:
            found = measures(*plain)
            yield [*found], [[plain[0], MEASURED_GROUP, each.group, -1, each.workspace_bytes, [*found.values()]]]


def _is_shown(group: int) -> bool:
    """Whether a group shows how exact the trees are, and is not learned from."""
    return group % 2 == 1 and group < FIRST_OF_MORE


def read(paths: list[Path], shown: bool, jobs: int, measured: tuple[Path, Path] | None = None) -> dict[str, Calls]:
    """Returns the calls of each direction, of the groups that are shown or of the others, and those that were measured for choosing."""

    def parts() -> Iterator[list[str]]:
        wanted = (line for line in _lines(paths) if _is_shown(int(line[1 : line.index(",")])) == shown)
        while part := list(itertools.islice(wanted, PART)):
            yield part

    rows: dict[str, list[Any]] = {name: [] for name in DIRECTIONS}
    columns: list[str] = []
    with multiprocessing.Pool(jobs) as pool:
        for names, part in itertools.chain(_of_measured(*measured) if measured else (), pool.imap(_measured, parts())):
            columns = names or columns
            for name, *row, values in part:
                rows[name].append((*row, np.array(values, np.int64)))
    found = {}
    for name, each in rows.items():
        groups, families, engines, workspaces, values = zip(*each, strict=True)
        table = np.array(values)
        # The same call occurs in several groups; of a measured one and an answer, the former counts.
        _, first = np.unique(table, axis=0, return_index=True)
        calls = Calls(
            dict(zip(columns, table.T, strict=True)), *map(np.array, (engines, workspaces, groups)), list(families)
        )
        found[name] = calls.at(first)
    return found


def _without(calls: Calls, others: Calls) -> Calls:
    """Returns the calls that are not among others."""

    def keys(each: Calls) -> list[bytes]:
        return [row.tobytes() for row in np.stack([*each.measures.values()], axis=1)]

    known = {*keys(others)}
    return calls.at(np.nonzero([key not in known for key in keys(calls)])[0])


def _weights(calls: Calls) -> Any:
    """Large calls and measured ones weigh more."""
    return np.sqrt(np.clip(calls.operand_bytes / 2e8, 0.01, 1)) * np.where(calls.engines < 0, MEASURED_WEIGHT, 1)


_growing: Any = None


def _grown(seed: int) -> tuple[list[int], list[int]]:
    from trees import Growth, grow, written

    codes, values, labels, kinds, weights = _growing
    how = Growth()
    tree = grow(
        codes, labels, kinds, weights, int(how.share * len(codes)), how.min_leaf, how.kind_weight, how.max_depth, seed
    )
    return written(tree, values)


def _direction(calls: Calls, names: list[str], jobs: int) -> tuple[Labels, list[Any]]:
    """Returns the labels and trees of one direction."""
    global _growing
    labels, of_calls = labelled(calls)
    uniques = [np.unique(calls.measures[name], return_inverse=True) for name in names]
    codes = np.array([places for _, places in uniques], np.int32)
    numbers: dict[Any, int] = {}
    kinds = np.array(
        [
            numbers.setdefault((kind, extra.partition(" ")[2] or bool(extra)), len(numbers))
            for kind, extra in labels.texts
        ]
    )
    _growing = codes, [values for values, _ in uniques], of_calls, kinds[of_calls], _weights(calls)
    with multiprocessing.Pool(min(jobs, TREES)) as pool:
        return labels, pool.map(_grown, range(TREES), chunksize=1)


def learned(calls: dict[str, Calls], jobs: int) -> dict[str, Any]:
    """Returns what a file of `kernels/` has."""
    names = [name for name in calls[DIRECTIONS[0]].measures if name not in PARTS]
    sums: dict[str, int] = {}
    directions = {}
    for direction, each in calls.items():
        labels, trees = _direction(each, names, jobs)
        engines = [
            [[*kind.copies], [sums.setdefault(text, len(sums)) for text in kind.copies.values()]]
            for kind in labels.kinds
        ]
        directions[direction] = {"engines": engines, "labels": labels.texts, "trees": trees}
        print(
            f"{direction}: {len(each)} calls, {len(labels.kinds)} kinds, {len(labels.texts)} labels, {sum(len(splits) for splits, _ in trees)} nodes",
            flush=True,
        )
    count = sum(map(len, calls.values()))
    about = (f"Workspaces of cuDNN's convolutions with PyTorch 2.11 (cuDNN 9.19) on an H100 and an H200; learned from {count} of its answers and measured calls by "
             "bench/prediction/convolutions.py. vram/dry/_workspaces.py describes the form.")  # fmt: skip
    return {"about": about, "measures": names, "sums": [*sums], "directions": directions}


_estimates: Any = None


def _estimated(part: tuple[str, Calls]) -> list[int]:
    direction, calls = part
    names = [*calls.measures]
    rows = zip(*(calls.measures[name].tolist() for name in names), strict=True)
    return [_estimates.workspace(direction, dict(zip(names, row, strict=True))) for row in rows]


def show(calls: dict[str, Calls], estimates: Estimates, jobs: int) -> None:
    """Prints errors by kind of call: exact ones (2 KiB), those up to 1 % of operands and workspace, mean and 95th percentile."""
    global _estimates
    _estimates = estimates
    print(COLUMNS)
    for direction, each in calls.items():
        parts = [(direction, each.at(chosen)) for chosen in np.array_split(np.arange(len(each)), 8 * jobs)]
        with multiprocessing.Pool(jobs) as pool:
            found = np.concatenate(pool.map(_estimated, parts, chunksize=1))
        errors = np.abs(found - each.workspaces).astype(np.float64)
        relative = errors / (each.operand_bytes + each.workspaces)
        families, is_large = np.array(each.families), each.operand_bytes >= LARGE_BYTES
        lines = [("", np.full(len(each), True)), (", operands ≥ 100 MiB", is_large)]
        lines += [(f" {family}, ≥ 100 MiB", is_large & (families == family)) for family in sorted({*each.families})]
        for name, chosen in lines:
            if chosen.sum() >= 100:
                print(f"{direction + name:50}{chosen.sum():8}{np.mean(errors[chosen] < NEGLIGIBLE_BYTES):8.1%}{np.mean(relative[chosen] <= 0.01):8.1%}"
                      f"{relative[chosen].mean():8.2%}{np.quantile(relative[chosen], 0.95):8.1%}", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["learn", "show"])
    parser.add_argument("answers", type=Path, nargs="+")
    parser.add_argument("--measured", type=Path, nargs=2)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only-some", action="store_true")
    wanted = parser.parse_args()
    shown = wanted.what == "show"
    calls = read(wanted.answers, shown, wanted.jobs, None if shown else wanted.measured)
    if shown:
        # Small networks have some layers in common.
        others = read(wanted.answers, False, wanted.jobs)
        calls = {name: _without(each, others[name]) for name, each in calls.items()}
        show(calls, Estimates.load(NAME), wanted.jobs)
        return
    if wanted.only_some:
        left_out = {name: each.at(np.nonzero(each.groups // 2 % 5 == 0)[0]) for name, each in calls.items()}
        calls = {name: each.at(np.nonzero(each.groups // 2 % 5 != 0)[0]) for name, each in calls.items()}
    data = learned(calls, wanted.jobs)
    text = json.dumps(data, separators=(",", ":")).encode()
    if wanted.write:
        wanted.write.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    if wanted.only_some:
        show(left_out, Estimates(json.loads(text)), wanted.jobs)


if __name__ == "__main__":
    main()

"""Compares the rules of vram.dry with measured calls; prints the operators, worst first.

    python bench/prediction/fit.py MEASURED KERNELS [--op aten.convolution.default] [--rows 12] [--generation sm_90]

MEASURED and KERNELS are folders that measure.py and kernels.py wrote. Of the programs, only those of `choose` are read. For each
operator, the table shows calls, how many need memory besides their outputs (`inside`) or leave some (`left`), the sums of the largest
such bytes of measured calls and of the rules, and the largest difference. --op prints single calls of one operator with their
arguments and the allocator's events.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from vram.dry._kernels import Call, Kernels

TYPES = {
    "f32": ("float32", 4), "f64": ("float64", 8), "f16": ("float16", 2), "bf16": ("bfloat16", 2), "i64": ("int64", 8),
    "i32": ("int32", 4), "i16": ("int16", 2), "i8": ("int8", 1), "u8": ("uint8", 1), "b8": ("bool", 1),
    "c64": ("complex64", 8), "c128": ("complex128", 16),
}  # fmt: skip


class Type(SimpleNamespace):
    def __str__(self) -> str:
        return f"torch.{self.name}"


class Tensor(SimpleNamespace):
    """A tensor as the journal describes it."""

    def stride(self) -> list[int]:
        if self.strides:
            return self.strides
        found = [1] * len(self.shape)
        for dim in range(len(self.shape) - 1, 0, -1):
            found[dim - 1] = found[dim] * max(1, self.shape[dim])
        return found


def argument(value: Any) -> Any:
    if isinstance(value, list):
        return [argument(part) for part in value]
    if isinstance(value, dict) and "t" in value:
        name, size = TYPES.get(value["t"], (value["t"], 1))
        return Tensor(
            dtype=Type(name=name, itemsize=size),
            shape=value["s"],
            strides=value.get("st"),
            device=value.get("d", "cuda"),
        )
    return value


def load(path: Path) -> Any:
    with lzma.open(path, "rt") as file:
        return json.load(file)


def rows(measured: Path, kernels: Path) -> Iterator[dict[str, Any]]:
    """Yields the calls of all journals, each different call of a file once, with `from` and how often it occurred (`times`)."""
    for path in sorted((measured / "journal").glob("*.json.xz")):
        found = load(path)
        if found["half"] != "choose":
            continue
        journal = found.get("journal", {"kinds": [], "calls": []})
        times = Counter(journal["calls"])
        for index, row in enumerate(journal["kinds"]):
            if "error" not in row:
                yield row | {"from": found["program"], "times": times[index]}
    for path in sorted(kernels.glob("*.json.xz")):
        found = load(path)
        for row in found["rows"] if isinstance(found, dict) else ():
            if row["op"] and "error" not in row:
                yield row | {"from": f"{found['group']}: {row['probe']} #{row['run']}", "times": 1}


def inside(row: dict[str, Any]) -> int:
    """Returns the bytes that a call needed at its peak besides its outputs and what it left."""
    return max(0, row["peak"] - row["out_bytes"] - max(0, row["left"]))


def predicted(rules: Kernels, row: dict[str, Any]) -> tuple[int, int]:
    """Returns the bytes inside and left over by the rules; what stays with the context counts as left over."""
    call = Call(
        row["op"], tuple(argument(row["args"])), argument(row.get("kwargs", {})), tuple(flat(argument(row["out"])))
    )
    found = rules.allocations(call)
    kept = sum(allocation.size_bytes for allocation in found if allocation.freed == "with_context")
    held = most = 0
    for allocation in found:
        if allocation.freed != "with_context":
            most = max(most, held + allocation.size_bytes)
            held += 0 if allocation.freed == "at_once" else allocation.size_bytes
    return most, kept


def flat(value: Any) -> list[Any]:
    return [part for inner in value for part in flat(inner)] if isinstance(value, list) else [value]


def table(rules: Kernels, found: dict[str, list[dict[str, Any]]]) -> None:
    lines = []
    for op, calls in found.items():
        pairs = [(inside(row), max(0, row["left"]), *predicted(rules, row)) for row in calls]
        # A workspace is left by the first call only, so the rule may say more than was measured there, but not less.
        worst = max((max(abs(a - c), b - d) for a, b, c, d in pairs), default=0)
        need = sum(1 for a, _, _, _ in pairs if a)
        left = sum(1 for _, b, _, _ in pairs if b)
        lines.append(
            (worst, op, len(calls), need, left, max(a for a, *_ in pairs), max(p[2] for p in pairs), rules.is_known(op))
        )
    print(
        f"{'operator':66}{'calls':>7}{'inside':>7}{'left':>6}{'most inside':>14}{'by rule':>14}{'worst error':>14}  known"
    )
    for worst, op, calls, need, left, most, rule, known in sorted(lines, reverse=True):
        print(f"{op:66}{calls:7}{need:7}{left:6}{most:14,}{rule:14,}{worst:14,}  {'yes' if known else 'NO'}")


def details(rules: Kernels, calls: list[dict[str, Any]], limit: int) -> None:
    def error(row: dict[str, Any]) -> int:
        return abs(inside(row) - predicted(rules, row)[0])

    for row in sorted(calls, key=error, reverse=True)[:limit]:
        expected = predicted(rules, row)
        print(f"{row['from']} ×{row['times']}")
        print(f"  args {json.dumps(row['args'])} {json.dumps(row.get('kwargs', {}))}")
        print(
            f"  out {row['out_bytes']:,}  inside {inside(row):,} (rules: {expected[0]:,})  left {row['left']:,} (rules: {expected[1]:,})"
        )
        print(f"  events {json.dumps(row.get('events', []))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("--op")
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--generation", default="sm_90")
    parser.add_argument("--torch", default="2.11.0")
    wanted = parser.parse_args()
    rules = Kernels.load(wanted.generation, wanted.torch, {})
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(wanted.measured, wanted.kernels):
        found[row["op"]].append(row)
    if wanted.op:
        details(rules, found[wanted.op], wanted.rows)
    else:
        table(rules, found)


if __name__ == "__main__":
    main()

"""What the engines of cuDNN need as workspace: which copies each makes, by the signature of a call, and which partial sums.

Everything is found in cuDNN's answers (plans_sampled.py): an engine is a number, and a workspace is explained if it is a sum of copies and a
multiple of a unit of sums, to less than 1 KiB.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from vram.dry._workspaces import size_of

# Sums of copies, those of few terms first.
BASES = sorted(
    (" + ".join(filter(None, parts)) for parts in itertools.product(("", "x", "x0", "xg"), ("", "w", "w0"), ("", "y", "y0", "yg"))),
    key=lambda text: (text.count("+") + bool(text), len(text)),
)  # fmt: skip
# The units of sums that an engine may have, and how many of each at most.
UNITS = {"np": 9, "o": 1200, "p": 1200, "p0": 1200, "q": 1200}
UNIT_SETS = ((), *((unit,) for unit in UNITS), ("np", "p0"), ("np", "o"), ("o", "q"), ("np", "p0", "q"))
# For what no unit explains: pieces of so many bytes, up to so many bytes.
PIECE_BYTES, MAX_PIECES_BYTES = 256, 40_000_000
# How much less or more than its sum an explained workspace may be.
LESS_BYTES, MORE_BYTES = 16, 1024
MIN_UNIT_BYTES = 4096
MIN_CALLS = 30  # with which the copies of an engine are found
MIN_CALLS_OF_LABEL = 4
# What a unit has to explain, as a share of an engine's calls.
WORTH = 0.015
# An engine is of the kind of another if it makes the same copies for this share of the calls whose signatures both have.
SAME, SHARED = 0.985, 0.3


@dataclass
class Calls:
    """The calls of one direction: arrays with a number for each, and its measures by name. Engine -1: not known."""

    measures: dict[str, Any]
    engines: Any
    workspaces: Any
    groups: Any
    families: list[str]

    def __len__(self) -> int:
        return len(self.workspaces)

    def at(self, chosen: Any) -> Calls:
        """Returns the chosen calls."""
        families = np.array(self.families)[chosen]
        measures = {name: values[chosen] for name, values in self.measures.items()}
        return Calls(measures, self.engines[chosen], self.workspaces[chosen], self.groups[chosen], list(families))

    @property
    def operand_bytes(self) -> Any:
        """Returns the bytes of input, weight and output."""
        return self.measures["x0"] + self.measures["w0"] + self.measures["y0"]


def _sum(text: str, calls: Calls) -> Any:
    return size_of(text, calls.measures) + np.zeros(len(calls), np.int64)


def _explained(rests: Any, units: tuple[str, ...], calls: Calls) -> tuple[Any, Any]:
    """Returns the number of the unit that explains a rest (0: none is needed, -1: nothing does), and how many of it."""
    which = np.where((rests >= -LESS_BYTES) & (rests < MORE_BYTES), 0, -1)
    counts = np.zeros(len(rests), np.int64)
    for number, name in enumerate(units, start=1):
        unit = calls.measures[name] + np.zeros(len(rests), np.int64)
        count = (rests + LESS_BYTES) // np.maximum(unit, 1)
        fits = (
            (which < 0)
            & (count > 0)
            & (count < UNITS[name])
            & (rests - count * unit < MORE_BYTES)
            & (unit > MIN_UNIT_BYTES)
        )
        which[fits], counts[fits] = number, count[fits]
    return which, counts


@dataclass
class Engine:
    """What is known of an engine: its units, and for each signature the sum of its copies and how many calls there were."""

    units: tuple[str, ...]
    copies: dict[int, tuple[str, int]]

    @property
    def call_count(self) -> int:
        return sum(count for _, count in self.copies.values())


def _engine(calls: Calls) -> Engine:
    """Finds the units and copies that explain most calls of an engine."""
    signatures, places = np.unique(calls.measures["signature"], return_inverse=True)
    rests = [calls.workspaces - _sum(base, calls) for base in BASES]
    best: tuple[float, Engine] | None = None
    for units in UNIT_SETS:
        scores, explained = [], []
        for rest in rests:
            which, _ = _explained(rest, units, calls)
            scores.append(np.bincount(places, np.where(which > 0, 0.8, which == 0), len(signatures)))
            explained.append(np.bincount(places, which >= 0, len(signatures)))
        chosen = np.argmax(scores, axis=0)  # of equal ones the first, which has the fewest terms
        score = sum(explained[base][i] for i, base in enumerate(chosen)) / len(calls) - WORTH * len(units)
        if best is None or score > best[0]:
            counts = np.bincount(places)
            found = {int(s): (BASES[base], int(n)) for s, base, n in zip(signatures, chosen, counts, strict=True)}
            best = score, Engine(units, found)
    assert best
    return best[1]


def _is_same(one: Engine, other: Engine) -> bool:
    shared = [
        (copies, count, other.copies[each][0]) for each, (copies, count) in one.copies.items() if each in other.copies
    ]
    total = sum(count for _, count, _ in shared)
    agreeing = sum(count for copies, count, others in shared if copies == others)
    return total >= SHARED * one.call_count and agreeing >= SAME * total and set(one.units) <= {*other.units, "o"}


@dataclass
class Kind:
    """Engines that make the same copies."""

    units: tuple[str, ...]
    copies: dict[int, str]

    def base(self, calls: Calls) -> Any:
        """Returns the bytes of the copies."""
        signatures = calls.measures["signature"]
        found = np.zeros(len(calls), np.int64)
        for signature in np.unique(signatures):
            chosen = np.nonzero(signatures == signature)[0]
            found[chosen] = size_of(
                self.copies.get(int(signature), "t"), {name: values[chosen] for name, values in calls.measures.items()}
            )
        return found


def kinds(calls: Calls) -> tuple[list[Kind], dict[int, int]]:
    """Returns the kinds of engines, and the number of the kind of each engine."""
    known = Counter(calls.engines[calls.engines >= 0].tolist())
    numbers = [number for number, count in known.most_common() if count >= MIN_CALLS]
    engines = {number: _engine(calls.at(np.nonzero(calls.engines == number)[0])) for number in numbers}
    first: list[int] = []
    kind_of: dict[int, int] = {}
    for number in numbers:
        same = (place for place, other in enumerate(first) if _is_same(engines[number], engines[other]))
        kind_of[number] = next(same, len(first))
        if kind_of[number] == len(first):
            first.append(number)
    found = []
    for place in range(len(first)):
        members = [engines[number] for number in numbers if kind_of[number] == place]
        votes: dict[int, Counter[str]] = defaultdict(Counter)
        for each in members:
            for signature, (copies, count) in each.copies.items():
                votes[signature][copies] += count
        units = tuple(unit for unit in UNITS if any(unit in each.units for each in members))
        found.append(Kind(units, {signature: votes[signature].most_common(1)[0][0] for signature in sorted(votes)}))
    return found, kind_of


@dataclass
class Labels:
    """What leaves of trees say: the kind of an engine, and what it needs besides its copies."""

    kinds: list[Kind]
    texts: list[tuple[int, str]]


def labelled(calls: Calls) -> tuple[Labels, Any]:
    """Returns the labels of calls: the sum that explains the workspace, or the one that comes nearest."""
    found, kind_of = kinds(calls)
    names: list[tuple[int, str] | None] = [None] * len(calls)
    own_kind = np.array([kind_of.get(int(engine), -1) for engine in calls.engines])
    bases = [kind.base(calls) for kind in found]
    for place, kind in enumerate(found):
        chosen = np.nonzero(own_kind == place)[0]
        rests = (calls.workspaces - bases[place])[chosen]
        which, counts = _explained(rests, kind.units, calls.at(chosen))
        for call, unit, count, rest in zip(chosen, which, counts, rests, strict=True):
            if unit >= 0:
                names[call] = place, f"{count} {kind.units[unit - 1]}" if unit else ""
            elif 0 < rest < MAX_PIECES_BYTES:
                names[call] = place, str(rest // PIECE_BYTES * PIECE_BYTES)
    frequent = Counter(name for name in names if name)
    texts = [name for name, count in frequent.most_common() if count >= MIN_CALLS_OF_LABEL]
    numbers = {name: number for number, name in enumerate(texts)}
    labels = np.array([numbers.get(name, -1) if name else -1 for name in names])
    _nearest(calls, texts, bases, own_kind, labels)
    return Labels(found, texts), labels


def _nearest(calls: Calls, texts: list[tuple[int, str]], bases: list[Any], own_kind: Any, labels: Any) -> None:
    """Gives the calls without a label the one that comes nearest; one of another kind costs a little more."""
    chosen = np.nonzero(labels < 0)[0]
    rest = calls.at(chosen)
    best = np.full(len(chosen), np.inf)
    for label, (kind, extra) in enumerate(texts):
        size = bases[kind][chosen] + size_of(extra, rest.measures)
        cost = np.abs(size - rest.workspaces) + 0.003 * (own_kind[chosen] != kind) * (
            rest.operand_bytes + rest.workspaces
        )
        is_better = cost < best
        best[is_better], labels[chosen[is_better]] = cost[is_better], label

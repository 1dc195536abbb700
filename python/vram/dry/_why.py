"""Formulas of what holds the memory at the peak, in the sizes of the program.

    runs with each size changed twice, alone ──▶ fit, one size at a time ──▶ candidates for all sizes together
    a run with all sizes changed ──▶ the first candidate with its bytes is the formula; if none has them, there is no formula

All runs are read at the event at which the first has its peak. If a run has other events, it is read at its own peak.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from vram.dry import _program
from vram.dry._results import DryRunContribution, contributions
from vram.dry._run import TracedRun

_MAX_DEGREE = 2
# Exponents of the sizes, in their order, and the factor of their product.
Polynomial = dict[tuple[int, ...], Fraction]


def step_of(size: int) -> int:
    """Return by how much to change a size: about a quarter, by a power of 2, so that most kernels still see aligned sizes."""
    return 1 << max(0, (size // 4).bit_length() - 1)


def slice_of(values: list[tuple[int, int]]) -> list[Fraction]:
    """Return the polynomial through three (size, bytes): its coefficients by degree.

    >>> slice_of([(1, 5), (2, 7), (3, 9)])
    [Fraction(3, 1), Fraction(2, 1), Fraction(0, 1)]
    """
    (x0, y0), (x1, y1), (x2, y2) = values
    first = Fraction(y1 - y0, x1 - x0)
    second = (Fraction(y2 - y1, x2 - x1) - first) / (x2 - x0)
    return [y0 - first * x0 + second * x0 * x1, first - second * (x0 + x1), second]


def candidates(base: int, sizes: list[int], slices: list[list[Fraction]]) -> Iterator[Polynomial]:
    """Return what the bytes may be, given what each size does alone: a constant and one product; products of sums; sums."""
    yield from _constant_and_product(base, sizes, slices)
    product: Polynomial = {(): Fraction(1)}
    for each in slices:
        product = {
            (*powers, n): factor * c / base for powers, factor in product.items() for n, c in enumerate(each) if c
        }
    yield {powers: factor * base for powers, factor in product.items()}
    total: Polynomial = {(0,) * len(sizes): Fraction(base)}
    for index, each in enumerate(slices):
        for power, factor in enumerate(each):
            powers = tuple(power if i == index else 0 for i in range(len(sizes)))
            total[powers] = total.get(powers, Fraction(0)) + factor
    total[(0,) * len(sizes)] -= len(sizes) * base
    yield total


def _constant_and_product(base: int, sizes: list[int], slices: list[list[Fraction]]) -> Iterator[Polynomial]:
    """A constant and one product of powers: each size that matters then has the same constant alone."""
    powers = tuple(next((n for n in range(1, _MAX_DEGREE + 1) if each[n]), 0) for each in slices)
    is_single = all(sum(1 for c in each[1:] if c) <= 1 for each in slices)
    constants = {each[0] for each, power in zip(slices, powers) if power}
    if is_single and len(constants) <= 1:
        constant = constants.pop() if constants else Fraction(base)
        factor = (base - constant) / math.prod(size**power for size, power in zip(sizes, powers))
        yield {(0,) * len(sizes): constant, powers: factor} if any(powers) else {powers: constant}


def evaluated(polynomial: Polynomial, sizes: list[int]) -> Fraction:
    return sum(
        (
            factor * math.prod(size**power for size, power in zip(sizes, powers))
            for powers, factor in polynomial.items()
        ),
        Fraction(0),
    )


def text_of(polynomial: Polynomial, names: list[str]) -> str:
    """Return a formula, terms of the highest degree first.

    >>> text_of({(1, 2): Fraction(4), (0, 0): Fraction(512)}, ["batch", "sequence"])
    '4·batch·sequence² + 512'
    """
    terms = sorted(
        ((powers, factor) for powers, factor in polynomial.items() if factor), key=lambda term: (-sum(term[0]), term[0])
    )
    text = ""
    for powers, factor in terms:
        parts = [f"{name}{'²' if power == 2 else ''}" for name, power in zip(names, powers) if power]
        number = str(abs(factor)) if factor.denominator == 1 else f"({abs(factor)})"
        term = "·".join(parts if abs(factor) == 1 and parts else [number, *parts])
        sign = "-" if factor < 0 else "+"
        text = f"{text} {sign} {term}" if text else f"{'-' if factor < 0 else ''}{term}"
    return text or "0"


def explained(
    trace: Path, sizes: Mapping[str, int], run_with: Callable[[Mapping[str, int]], TracedRun]
) -> list[DryRunContribution]:
    """Return the contributions to the peak of a trace, with the formulas that can be shown.

    Args:
        trace: Of a dry run.
        sizes: The sizes of its program.
        run_with: Runs the program with some of its sizes changed.
    """
    moment = _program.moment(trace)

    def bytes_with(changed: Mapping[str, int]) -> dict[tuple[str, str], int]:
        """The bytes of each contribution, at the event at which the first trace has its peak."""
        other = run_with(changed)  # its trace exists as long as it does
        there = _program.moment(other.trace_path)
        if there["events"] == moment["events"] and there["event"] != moment["event"]:
            there = _program.moment(other.trace_path, moment["event"])
        return {(each.name, each.category): each.requested_bytes for each in contributions(there)}

    alone = {
        name: [(size + n * step_of(size), bytes_with({name: size + n * step_of(size)})) for n in (1, 2)]
        for name, size in sizes.items()
    }
    checked = {name: size + 3 * step_of(size) for name, size in sizes.items()}
    shown = bytes_with(checked)

    def formula(part: DryRunContribution) -> str | None:
        key, base = (part.name, part.category), part.requested_bytes
        if key not in shown or any(key not in there for each in alone.values() for _, there in each):
            return None
        slices = [
            slice_of([(size, base), *((value, there[key]) for value, there in alone[name])])
            for name, size in sizes.items()
        ]
        for polynomial in candidates(base, [*sizes.values()], slices):
            if evaluated(polynomial, [*checked.values()]) == shown[key]:
                return text_of(polynomial, [*sizes])
        return None

    return [replace(part, formula=formula(part)) for part in contributions(moment)]

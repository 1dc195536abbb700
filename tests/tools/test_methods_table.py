"""The tables of methods in both pages about habits have the figures of bench/gpu/methods.csv."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from statistics import mean

import pytest

from source_files import ROOT

PAGES = ("docs/habits.md", "docs/zh/habits.md")
# The methods of the rows, in the order of the first two tables, with the program that was measured.
METHODS = [
    *(("gpt", name) for name in ("autocast bf16", "checkpointing", "half the batch", "accumulate 2 halves", "fused AdamW")),
    *(("gpt", name) for name in ("AdamW without foreach", "set_to_none=False", "empty_cache each step", "gc.collect each step")),
    ("gpt", "TF32 matrix products"),
    *(("resnet", name) for name in ("plain", "channels_last", "autocast bf16, channels_last")),
    *(("gpt, varied lengths", name) for name in ("plain", "expandable segments", "pool")),
    *(("gpt, inference", name) for name in ("plain", "no_grad")),
]  # fmt: skip
CALLS = ["del", "gc.collect", "empty_cache", "del, gc.collect, empty_cache", "zero_grad"]
GB = re.compile(r"(\d+\.\d) GB")
MS = re.compile(r"(\d+(?:\.\d)?) ms")


def measured() -> dict[tuple[str, str], dict[str, float]]:
    """The means of the repetitions."""
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (ROOT / "bench/gpu/methods.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            method = values[row["program"], row["method"]]
            for name in ("allocated_bytes", "reserved_bytes", "ms", "after_bytes", "after_reserved_bytes", "call_ms"):
                if row[name]:
                    method[name].append(float(row[name]))
    return {key: {name: mean(found) for name, found in method.items()} for key, method in values.items()}


def rows(page: str) -> list[list[str]]:
    """The cells of the rows with figures in the section about methods."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = re.split(r"^## ", text[text.index("`bench/gpu/methods.py`") :], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and GB.search(line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def number(pattern: re.Pattern[str], cell: str) -> float:
    match = pattern.search(cell)
    assert match, cell
    return float(match[1])


@pytest.mark.parametrize("page", PAGES)
def test_the_methods_have_the_measured_figures(page: str) -> None:
    found = measured()
    for cells, key in zip(rows(page)[: len(METHODS)], METHODS, strict=True):
        figures = found[key]
        allocated, reserved, step = [cell for cell in cells if GB.search(cell) or MS.search(cell)][:3]
        assert number(GB, allocated) == round(figures["allocated_bytes"] / 1e9, 1), cells
        assert number(GB, reserved) == round(figures["reserved_bytes"] / 1e9, 1), cells
        assert number(MS, step) == round(figures["ms"]), cells
        plain = found[key[0], "plain"]
        for cell, name in ((allocated, "allocated_bytes"), (step, "ms")):
            if change := re.search(r"([−+])(\d+) %", cell):
                exact = 100 * (figures[name] / plain[name] - 1)
                assert int(f"{change[1]}{change[2]}".replace("−", "-")) == round(exact), cells


@pytest.mark.parametrize("page", PAGES)
def test_the_calls_have_the_measured_figures(page: str) -> None:
    found = measured()
    for cells, call in zip(rows(page)[len(METHODS) :], CALLS, strict=True):
        figures = found["after training", call]
        assert number(GB, cells[1]) == round(figures["after_bytes"] / 1e9, 1), cells
        assert number(GB, cells[2]) == round(figures["after_reserved_bytes"] / 1e9, 1), cells
        digits = 1 if figures["call_ms"] < 10 else 0
        assert number(MS, cells[3]) == round(figures["call_ms"], digits), cells

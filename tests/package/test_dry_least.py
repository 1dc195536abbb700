"""The least memory is above all amounts near it that fail with the trace or one of its variants."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vram.dry import _least, _program, _varied

MIB = 1 << 20
NATIVE, EXPANDABLE = "torch", "torch:expandable_segments=True"


class Replays:
    """Stands for the program `vram`: each trace completes with `least` and more, but not with some amounts, in MiB."""

    def __init__(self, least: int = 1000, *, retries: int = 1) -> None:
        self.least, self.retries = least, retries
        self.fails: dict[str, set[int]] = {}  # by the stem of the trace
        self.searched: list[str] = []
        self.probed: set[tuple[str, int]] = set()

    def replay(
        self, trace: Path, _allocator: str, *, finds_capacity: bool = False, capacity: int | None = None
    ) -> dict[str, Any]:
        if finds_capacity:
            self.searched.append(trace.stem)
            return {"min_capacity_bytes": self.least * MIB}
        assert capacity is not None
        amount = capacity // MIB
        self.probed.add((trace.stem, amount))
        completed = amount >= self.least and amount not in self.fails.get(trace.stem, ())
        peak = (self.least + 2) * MIB
        return {"completed": completed, "retries": self.retries, "caught_ooms": 0, "peak_reserved_bytes": peak}


def write(_trace: Path, folder: Path) -> Iterator[Path]:
    yield from (folder / f"varied-{number}.jsonl" for number in range(_varied.VARIANTS))


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Replays:
    found = Replays()
    monkeypatch.setattr(_program, "replay", found.replay)
    monkeypatch.setattr(_program, "convert", lambda _trace, path: path.touch())
    monkeypatch.setattr(_varied, "write", write)
    return found


def least(allocator: str = NATIVE) -> float:
    return _least.least_bytes(Path("dry.vtrace"), allocator) / MIB


def test_what_the_searches_find_is_enough_if_all_amounts_above_it_are(replays: Replays) -> None:
    assert least() == 1000
    assert {stem for stem, _ in replays.probed} == {"dry", *(f"varied-{number}" for number in range(8))}
    assert {amount for _, amount in replays.probed} == {1000, 1005, 1010, 1015, 1020, 1025, 1030, 1040, 1050, 1060}


@pytest.mark.parametrize("stem", ["dry", "varied-5"])
def test_the_least_memory_is_above_amounts_that_fail_with_any_trace(stem: str, replays: Replays) -> None:
    replays.fails[stem] = {*range(1018, 1032)}
    assert least() == 1035


def test_what_suffices_above_one_that_failed_is_tried_as_well(replays: Replays) -> None:
    replays.fails = {"varied-0": {1060}, "varied-1": {1105}}
    assert least() == 1110


def test_the_search_ends_where_nothing_suffices(replays: Replays) -> None:
    replays.fails["varied-0"] = {*range(10000)}
    assert least() >= 2000


def test_amounts_above_the_peak_of_a_replay_that_released_nothing_are_not_tried(replays: Replays) -> None:
    replays.retries = 0
    assert least() == 1000
    assert {amount for _, amount in replays.probed} == {1000, 1060}


def test_the_peak_does_not_count_where_garbage_is_collected(replays: Replays) -> None:
    replays.retries = 0
    assert least("torch:garbage_collection_threshold=0.8") == 1000
    assert len({amount for _, amount in replays.probed}) == 10


@pytest.mark.parametrize("allocator", [EXPANDABLE, "vram"])
def test_only_torch_without_expandable_segments_has_variants(allocator: str, replays: Replays) -> None:
    replays.fails["dry"] = {1015}
    assert least(allocator) == 1020
    assert replays.searched == ["dry"]

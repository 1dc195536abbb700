"""The least memory is above all amounts near it that fail, as the trace is placed or with another layout of addresses."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _least, _program, dry_run

MIB = 1 << 20
NATIVE, EXPANDABLE = "torch", "torch:expandable_segments=True"
FRACTION = "per_process_memory_fraction=0.5"


class Replays:
    """Stands for the program `vram`: the trace completes with `least` and more, but not with some amounts, in MiB."""

    def __init__(self, least: int = 1000, *, retries: int = 1) -> None:
        self.least, self.retries, self.layouts = least, retries, 1
        self.fails: set[int] = set()
        self.fails_in_a_layout: set[int] = set()
        self.searched: list[str] = []
        self.fraction_fails: set[int] = set()  # as a memory fraction
        self.probed: set[tuple[str, int]] = set()
        self.replays = 0

    def replay(
        self, trace: Path, allocator: str, *, finds_capacity: bool = False, capacity: int | None = None
    ) -> dict[str, Any]:
        if finds_capacity:
            self.searched.append(trace.stem)
            return {"min_capacity_bytes": self.least * MIB}
        assert capacity is not None
        self.replays += 1
        amount = capacity // MIB
        if FRACTION in allocator:
            amount //= 2
        self.probed.add((trace.stem, amount))
        completed = amount >= self.least and amount not in self.fails
        if FRACTION in allocator and amount in self.fraction_fails:
            completed = False
        peak = (self.least + 2) * MIB
        layouts = self.layouts if completed and amount not in self.fails_in_a_layout else self.layouts - 1
        return {
            "completed": completed, "layouts_tried": self.layouts, "layouts_completed": layouts,
            "retries": self.retries, "caught_ooms": 0, "peak_reserved_bytes": peak,
        }  # fmt: skip


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> Replays:
    found = Replays()
    monkeypatch.setattr(_program, "replay", found.replay)
    monkeypatch.setattr(_program, "convert", lambda _trace, path: path.touch())
    return found


def least(allocator: str = NATIVE) -> float:
    return _least.least(Path("dry.vtrace"), allocator).size_bytes / MIB


def test_what_the_searches_find_is_enough_if_all_amounts_above_it_are(replays: Replays) -> None:
    assert least() == 1000
    assert {stem for stem, _ in replays.probed} == {"unplaced"}
    amounts = {1000, 1005, 1010, 1015, 1020, 1025, 1030, 1040, 1050, 1060}
    assert {amount for _, amount in replays.probed} == amounts | {1065, 1080, 1100}


def test_of_a_small_program_what_the_margin_adds_is_enough(replays: Replays) -> None:
    replays.least = 400
    replays.fails = {*range(460, 468)}
    assert least() == 468, "400 and 64 MiB are tried, and then all steps above until none fails"


def test_of_a_large_program_the_margin_is_less_than_what_is_tried_anyway(replays: Replays) -> None:
    replays.least = 5000
    assert least() == 5000
    assert max(amount for _, amount in replays.probed) == 5300


def test_the_least_memory_is_above_amounts_that_fail(replays: Replays) -> None:
    replays.fails = {*range(1018, 1032)}
    assert least() == 1035


def test_the_least_memory_is_above_amounts_that_fail_with_other_addresses(replays: Replays) -> None:
    replays.layouts, replays.fails_in_a_layout = 9, {*range(1018, 1032)}
    assert least() == 1035


def test_what_suffices_above_one_that_failed_is_tried_as_well(replays: Replays) -> None:
    replays.fails = {1060, 1105}
    assert least() == 1110


def test_the_search_ends_where_nothing_suffices(replays: Replays) -> None:
    replays.fails = {*range(10000)}
    assert least() >= 2000


def test_amounts_above_the_peak_of_a_replay_that_released_nothing_are_not_tried(replays: Replays) -> None:
    replays.retries = 0
    assert least() == 1000
    assert {amount for _, amount in replays.probed} == {1000, 1100}


def test_the_peak_does_not_count_where_it_is_that_of_one_of_several_layouts(replays: Replays) -> None:
    replays.retries, replays.layouts = 0, 9
    assert least() == 1000
    assert len({amount for _, amount in replays.probed}) == 13


def test_the_peak_does_not_count_where_garbage_is_collected(replays: Replays) -> None:
    replays.retries = 0
    assert least("torch:garbage_collection_threshold=0.8") == 1000
    assert len({amount for _, amount in replays.probed}) == 13


@pytest.mark.parametrize("allocator", [EXPANDABLE, "vram"])
def test_segments_of_allocators_that_place_them_stay_where_they_are(allocator: str, replays: Replays) -> None:
    replays.fails = {1015}
    assert least(allocator) == 1020
    assert replays.searched == ["dry"]


@pytest.mark.parametrize(("allocator", "least_mib"), [(NATIVE, 1000), (EXPANDABLE, 1035), ("vram", 1000)])
def test_with_expandable_segments_an_amount_suffices_as_a_memory_fraction_too(
    allocator: str, least_mib: int, replays: Replays
) -> None:
    replays.fraction_fails = {*range(1000, 1032)}
    assert least(allocator) == least_mib


def test_a_memory_fraction_of_the_program_itself_stays(replays: Replays) -> None:
    assert least(f"{EXPANDABLE},per_process_memory_fraction=0.9") == 1000
    assert replays.replays == len(replays.probed) == 13


def test_amounts_above_one_with_which_nothing_was_released_are_not_tried_with_expandable_segments(
    replays: Replays,
) -> None:
    replays.retries = 0
    replays.fails = {1015}
    assert least(EXPANDABLE) == 1020
    assert max(amount for _, amount in replays.probed) == 1100
    assert replays.replays == 2 * 10


def test_a_memory_fraction_refuses_what_a_gpu_of_that_size_has_pages_for(tmp_path: Path) -> None:
    """Two pages of 20 MiB have 10 MiB left, so that 44 MiB need two more; but 40 and 44 MiB are more than a fraction of 80 MiB."""
    with dry_run("24GiB", path=tmp_path / "dry.vtrace", allocator=EXPANDABLE) as run:
        kept = [torch.empty(size * MIB, dtype=torch.uint8, device="cuda") for size in (30, 44)]
    trace = run.trace_path
    assert _program.replay(trace, EXPANDABLE, finds_capacity=True)["min_capacity_bytes"] == 80 * MIB
    assert not _program.replay(trace, f"{EXPANDABLE},{FRACTION}", capacity=2 * 83 * MIB)["completed"]
    assert _program.replay(trace, f"{EXPANDABLE},{FRACTION}", capacity=2 * 84 * MIB)["completed"]
    assert 84 * MIB <= _least.least(trace, EXPANDABLE).size_bytes < 84.5 * MIB
    assert len(kept) == 2


def test_a_gpu_refuses_pages_that_exceed_a_memory_fraction(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace", allocator=EXPANDABLE) as run:
        kept = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert _program.replay(run.trace_path, f"{EXPANDABLE},{FRACTION}", capacity=2 * 30 * MIB)["completed"]
    assert _least.least(run.trace_path, EXPANDABLE).size_bytes == 40 * MIB
    assert kept.numel() == 30 * MIB


def test_the_order_of_segments_counts(tmp_path: Path) -> None:
    """Of two equal free blocks the allocator takes the one at the lower address: if it is in the first segment, none can be released later."""
    with dry_run("24GiB", path=tmp_path / "dry.vtrace") as run:

        def alloc(size_mib: int) -> Any:
            return torch.empty(size_mib * MIB, dtype=torch.uint8, device="cuda")

        first, second, third, fourth = (alloc(9) for _ in range(4))  # two segments of 20 MiB
        del second, fourth
        kept = [third, alloc(9)]
        del first
        kept.append(alloc(30))
    trace = run.trace_path
    assert len(kept) == 3
    assert _program.replay(trace, NATIVE, finds_capacity=True)["min_capacity_bytes"] == 50 * MIB
    assert 70 * MIB <= _least.least(trace, NATIVE).size_bytes < 71 * MIB

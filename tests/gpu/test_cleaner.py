"""vram.Cleaner on a GPU: the bytes that it reports as freed are the decrease of PyTorch's counters, with either allocator."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

MIB = 1 << 20


@pytest.fixture(scope="module", params=["native", "expandable", "pool"])
def told(run: Callable[[str, str], Any], request: pytest.FixtureRequest) -> Any:
    return run("clean.py", request.param)


def fell(told: Any, figure: str) -> int:
    return int(told["before"][figure] - told["after"][figure])


def test_cycles_that_hold_tensors_are_found_named_and_freed(told: Any) -> None:
    told = told["cycles"]
    assert told["before"]["allocated"] - told["begun"]["allocated"] == 80 * MIB
    assert told["found"] == [64 * MIB, 16 * MIB]
    cleaned = told["first"]["cycles"]
    assert cleaned["skipped"] is None
    assert cleaned["device"] == fell(told, "allocated") == 80 * MIB
    assert [size for size, _ in cleaned["cycles"]] == [64 * MIB, 16 * MIB]
    assert all("Trainer.itself -> Trainer" in text for _, text in cleaned["cycles"])
    assert f"Trainer.activations -> Tensor[{64 * MIB}] uint8" in cleaned["cycles"][0][1]
    assert told["second"]["cycles"]["skipped"] == "no more than 0 B would come back"


def test_workspaces_and_the_cache_are_given_back(told: Any) -> None:
    told = told["workspaces"]
    workspace_bytes = told["before"]["allocated"] - told["begun"]["allocated"]
    assert workspace_bytes > 0
    assert told["before"]["plans"] == 1
    assert told["first"]["workspaces"]["skipped"] is None
    assert told["first"]["workspaces"]["device"] == fell(told, "allocated") == workspace_bytes
    assert told["after"]["plans"] == 0
    assert told["first"]["cache"]["skipped"] is None
    assert told["first"]["cache"]["device"] == fell(told, "reserved") >= 256 * MIB
    assert told["product"] == 512


def test_pinned_memory_that_nobody_uses_is_given_back(told: Any) -> None:
    told = told["host"]
    assert told["before"]["pinned"] >= (256 + 32) * MIB
    cleaned = told["first"]["host"]
    assert cleaned["skipped"] is None
    assert cleaned["host"] == fell(told, "pinned") >= 256 * MIB
    assert cleaned["device"] == 0
    assert told["after"]["pinned"] >= told["kept"]
    assert told["second"]["host"]["skipped"] == "no more than 32 MiB would come back"  # which are in use


def test_a_second_cleaning_straight_after_is_not_worth_it(told: Any) -> None:
    second = told["workspaces"]["second"]
    assert list(second) == ["cycles", "workspaces", "cache"]
    assert [cleaned["device"] for cleaned in second.values()] == [0, 0, 0]
    assert all(cleaned["skipped"] for cleaned in second.values()), second

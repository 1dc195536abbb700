"""vram.Cleaner on a GPU: the bytes that it reports as freed are the decrease of PyTorch's counters, with either allocator."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")

MIB = 1 << 20


@pytest.fixture(scope="module", params=["native", "expandable", "pool"])
def result(run: Callable[[str, str], Any], request: pytest.FixtureRequest) -> Any:
    return run("clean.py", request.param)


def fell(result: Any, figure: str) -> int:
    return int(result["before"][figure] - result["after"][figure])


def test_cycles_that_hold_tensors_are_found_named_and_freed(result: Any) -> None:
    result = result["cycles"]
    assert result["before"]["allocated"] - result["begun"]["allocated"] == 80 * MIB
    assert result["found"] == [64 * MIB, 16 * MIB]
    cleaned = result["first"]["cycles"]
    assert cleaned["skipped"] is None
    assert cleaned["device"] == fell(result, "allocated") == 80 * MIB
    assert [size for size, _ in cleaned["cycles"]] == [64 * MIB, 16 * MIB]
    assert all("Trainer.itself -> Trainer" in text for _, text in cleaned["cycles"])
    assert f"Trainer.activations -> Tensor[{64 * MIB}] uint8" in cleaned["cycles"][0][1]
    assert result["second"]["cycles"]["skipped"] == "no more than 0 B would come back"


def test_workspaces_and_the_cache_are_given_back(result: Any) -> None:
    result = result["workspaces"]
    workspace_bytes = result["before"]["allocated"] - result["begun"]["allocated"]
    assert workspace_bytes > 0
    assert result["before"]["plans"] == 1
    assert result["first"]["workspaces"]["skipped"] is None
    assert result["first"]["workspaces"]["device"] == fell(result, "allocated") == workspace_bytes
    assert result["after"]["plans"] == 0
    assert result["first"]["cache"]["skipped"] is None
    assert result["first"]["cache"]["device"] == fell(result, "reserved") >= 256 * MIB
    assert result["product"] == 512


def test_pinned_memory_that_nobody_uses_is_given_back(result: Any) -> None:
    result = result["host"]
    assert result["before"]["pinned"] >= (256 + 32) * MIB
    cleaned = result["first"]["host"]
    assert cleaned["skipped"] is None
    assert cleaned["host"] == fell(result, "pinned") >= 256 * MIB
    assert cleaned["device"] == 0
    assert result["after"]["pinned"] >= result["kept"]
    assert result["second"]["host"]["skipped"] == "no more than 32 MiB would come back"  # which are in use


def test_a_second_cleaning_straight_after_is_not_worth_it(result: Any) -> None:
    second = result["workspaces"]["second"]
    assert list(second) == ["cycles", "workspaces", "cache"]
    assert [cleaned["device"] for cleaned in second.values()] == [0, 0, 0]
    assert all(cleaned["skipped"] for cleaned in second.values()), second

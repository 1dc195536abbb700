"""Recovery from real out-of-memory errors, on one GPU and over NCCL on two, with PyTorch's own allocator and the pool."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

RANKS = Path(__file__).with_name("programs") / "recover_ranks.py"
EQUAL = 1e-6  # of the gradients' norm
Run = Callable[[str, str], Any]


def both_ranks(folder: Path, allocator: str) -> list[Any]:
    """What each of them tells."""
    ranks = []
    for rank in range(2):
        with open(folder / f"errors{rank}", "w") as errors:
            words = [sys.executable, str(RANKS), allocator, str(rank), str(folder / "meet")]
            ranks.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True))
    try:
        outputs = [process.communicate(timeout=110)[0] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    said = "".join((folder / f"errors{rank}").read_text() for rank in range(2))
    assert [process.returncode for process in ranks] == [0, 0], said
    return [json.loads(output.splitlines()[-1]) for output in outputs]


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
@pytest.mark.parametrize("allocator", ["native", "pool"])
def test_two_ranks_split_alike_where_one_has_too_little_memory(tmp_path: Path, allocator: str) -> None:
    poor, rich = both_ranks(tmp_path, allocator)
    for result in (poor, rich):
        first, second = result["batches"]
        assert first["size"] in (64, 32)  # of 128; the limit is far above what 16 need
        assert first["retries"] >= 1
        assert (second["size"], second["retries"]) == (first["size"], 0)
        assert max(batch["difference"] for batch in result["batches"]) <= EQUAL
        assert result["own"] <= EQUAL
        before, after = result["others"]
        assert before == after, "a rank took memory of the other one's GPU"
    assert [batch["size"] for batch in poor["batches"]] == [batch["size"] for batch in rich["batches"]]
    assert [batch["retries"] for batch in poor["batches"]] == [batch["retries"] for batch in rich["batches"]]
    assert poor["peak"] <= poor["limit"]
    assert rich["peak"] > rich["limit"]  # it had the memory for the whole batch, and used it once


@pytest.fixture(scope="module", params=["native", "pool"])
def alone(run: Run, request: pytest.FixtureRequest) -> Any:
    return run("recover_alone.py", request.param)


def test_a_batch_is_split_until_it_fits_with_the_same_gradients(alone: Any) -> None:
    result = alone["micro_batches"]
    assert result["size"] in (64, 32)
    assert result["retries"] >= 1
    assert result["freed"] > 0
    assert result["difference"] <= EQUAL
    assert result["left"] == 0


def test_a_function_is_called_again_with_parts_that_fit(alone: Any) -> None:
    result = alone["retry_on_oom"]
    *sizes, one, other = result["sizes"]  # the last two: one part in two, to see that results belong to samples
    size = one + other
    assert sizes[0] == 128
    assert size in (64, 32)
    assert sizes[-128 // size :] == [size] * (128 // size)
    assert result["difference"] <= EQUAL
    assert result["left"] == 0


def test_random_numbers_on_the_gpu_begin_again(alone: Any) -> None:
    result = alone["dropout"]
    failed, smooth = result["retries"]
    assert failed >= 1
    assert smooth == 0
    assert result["sizes"][0] == result["sizes"][1] < 128
    assert result["equal"]
    assert result["state"]
    assert any("dropout" in note for note in result["notes"])
    of_function = alone["dropout_of_a_function"]
    assert of_function["tried"][0] == 128
    count = len(of_function["parts"])
    assert of_function["parts"] == of_function["tried"][-count - 3 : -3]  # one part is run again, whole and in two
    assert count > 1
    assert of_function["equal"]


@pytest.mark.parametrize("allocator", ["native", "expandable", "pool"])
def test_the_largest_batch_is_found_by_three_trials(run: Run, allocator: str) -> None:
    result = run("find_batch_size.py", allocator)
    assert abs(result["budget"] - result["limit"]) <= 4096  # the limit that was set; the search finds it itself
    assert len(result["trials"]) <= 3, result
    assert result["size"] % 8 == 0
    assert result["peak"] <= result["limit"]
    assert result["larger"] > result["limit"], result

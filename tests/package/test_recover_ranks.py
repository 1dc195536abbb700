"""Two ranks, real DistributedDataParallel over gloo: they agree on each retry, whichever fails, and neither hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import vram

PYTHON = Path(__file__).resolve().parents[2] / "python"
ROUNDS = 40
DEADLINE = 1800 if os.environ.get("VRAM_DEEP") else 240  # seconds, on a busy machine


def both_ranks(script: str, folder: Path, *words: str, deadline: int) -> list[str]:
    """What each of two processes says. One that waits for ever is ended, with the other, at the deadline, in seconds."""
    path = Path(__file__).with_name(script)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", path, str(rank), folder / "meet", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PYTHON), "OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [rank.communicate(timeout=deadline)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)
    return outputs


def test_two_ranks_agree_whoever_fails(tmp_path: Path) -> None:
    outputs = both_ranks("recover_rank.py", tmp_path, str(ROUNDS), deadline=100)
    assert all(int(output.splitlines()[-1]) >= ROUNDS // 3 for output in outputs)  # how often each of them failed


@pytest.mark.timeout(2 * DEADLINE)
@pytest.mark.parametrize(
    "part",
    [
        "out_of_memory_anywhere",
        "errors_anywhere",
        "errors_before_the_first_vote",
        "refusals",
        "batch_sizes",
        "functions",
    ],
)
def test_what_happens_to_one_rank_happens_to_both(part: str, tmp_path: Path) -> None:
    both_ranks("recover_rank_steps.py", tmp_path, part, deadline=DEADLINE)


def test_models_that_communicate_by_themselves_are_refused_even_if_batch_norm_is_allowed() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.SyncBatchNorm(1))
    with pytest.raises(vram.VramError, match="SyncBatchNorm communicates"):
        vram.micro_batches(torch.randn(4, 2), lambda part: model(part).sum(), model=model, allow_batch_norm=True)


@pytest.mark.parametrize("name", ["FullyShardedDataParallel", "DeepSpeedEngine"])
def test_sharded_models_are_refused(name: str) -> None:
    model = type(name, (nn.Linear,), {})(2, 1)
    with pytest.raises(vram.VramError, match="communicates within forward and backward"):
        vram.micro_batches(torch.randn(4, 2), lambda part: model(part).sum(), model=model)

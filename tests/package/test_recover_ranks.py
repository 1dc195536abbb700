"""Two ranks, real DistributedDataParallel over gloo: they agree on each retry, whoever fails, and wait for nobody."""

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


def test_two_ranks_agree_whoever_fails(tmp_path: Path) -> None:
    script = Path(__file__).with_name("recover_rank.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", script, str(rank), tmp_path / "meet", str(ROUNDS)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(PYTHON)},
        )
        for rank in (0, 1)
    ]
    outputs = [rank.communicate(timeout=100)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    assert all(int(output) >= ROUNDS // 3 for output in outputs)  # how often each of them failed


def test_models_that_communicate_by_themselves_are_refused_even_if_batch_norm_is_allowed() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.SyncBatchNorm(1))
    with pytest.raises(vram.VramError, match="SyncBatchNorm communicates"):
        vram.micro_batches(torch.randn(4, 2), lambda part: model(part).sum(), model=model, allow_batch_norm=True)


@pytest.mark.parametrize("name", ["FullyShardedDataParallel", "DeepSpeedEngine"])
def test_sharded_models_are_refused(name: str) -> None:
    model = type(name, (nn.Linear,), {})(2, 1)
    with pytest.raises(vram.VramError, match="communicates within forward and backward"):
        vram.micro_batches(torch.randn(4, 2), lambda part: model(part).sum(), model=model)

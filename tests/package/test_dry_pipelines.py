"""Dry runs of the first rank of a pipeline: what its stages hold until the other ranks, which do not exist, have gradients for them."""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vram.dry import dry_run

RANKS, BATCHES = 2, 8


def peak_of(schedule: str, tmp_path: Path, stages: int = 1) -> int:
    """Train the stages of this rank, and return the most that was allocated."""
    with dry_run(path=tmp_path / "dry.vtrace", world_size=RANKS) as run:
        pipelining: Any = importlib.import_module("torch.distributed.pipelining")
        torch.distributed.init_process_group("nccl")
        device = torch.device("cuda", 0)
        blocks = [nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)).to(device) for _ in range(stages)]
        own = [
            pipelining.PipelineStage(block, number * RANKS, stages * RANKS, device)
            for number, block in enumerate(blocks)
        ]
        steps = getattr(pipelining, schedule)(own if stages > 1 else own[0], BATCHES, loss_fn=nn.MSELoss())
        optimizer = torch.optim.SGD([weight for block in blocks for weight in block.parameters()], 0.1)
        for _ in range(3):
            steps.step(torch.randn(BATCHES * 256, 512, device=device))
            optimizer.step()
            optimizer.zero_grad()
        assert all(block[0].weight.grad is None for block in blocks)
    assert run.steps == 3
    return run.peak.requested_bytes


def test_a_schedule_holds_what_it_has_not_sent_back(tmp_path: Path) -> None:
    """All micro-batches, or as many as there are ranks; each keeps its input, the result and what is between: 512 KiB each."""
    all_of_them, few = peak_of("ScheduleGPipe", tmp_path), peak_of("Schedule1F1B", tmp_path)
    kept = 256 * 512 * 4
    assert (BATCHES - RANKS - 1) * kept < all_of_them - few < (BATCHES - RANKS + 1) * 4 * kept


@pytest.mark.filterwarnings("error:.*no rule")
def test_stages_of_one_rank_follow_each_other(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="assumes that what a stage of a pipeline receives"):
        peak = peak_of("ScheduleInterleaved1F1B", tmp_path, stages=2)
    assert peak > peak_of("Schedule1F1B", tmp_path)

"""Optimizers inside others, as those of accelerate, and L-BFGS, which decides by values of the GPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vram


class Wrapper(torch.optim.Optimizer):
    """An optimizer around another one."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer

    def step(self, closure: Any = None) -> Any:
        return self.optimizer.step(closure)


def program(batch: int, *, is_wrapped: bool = True) -> None:
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)).cuda()
    inner = torch.optim.AdamW(model.parameters())
    optimizer = Wrapper(inner) if is_wrapped else inner
    while True:
        model(torch.randn(batch, 512, device="cuda")).mean().backward()
        optimizer.step()
        inner.zero_grad()


def test_an_optimizer_around_another_one_stays() -> None:
    run = vram.predict(program, "24GiB", batch=8)
    plain = vram.predict(functools.partial(program, is_wrapped=False), "24GiB", batch=8)
    changed = run.what_if(optimizer="sgd")
    assert changed.peak == plain.what_if(optimizer="sgd").peak
    assert changed.peak.requested_bytes < run.peak.requested_bytes


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_does_all_its_iterations(line_search: str | None, tmp_path: Path) -> None:
    with vram.dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.Linear(64, 32, bias=False, device="cuda")
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, history_size=6, line_search_fn=line_search)
        x = torch.randn(16, 64, device="cuda")

        def closure() -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        state = optimizer.state[model.weight]
        assert state["n_iter"] == 12
        assert (len(state["old_dirs"]), len(state["old_stps"])) == (6, 6)
        # Parameter, gradient, direction, gradient before, and the history; the rest is smaller.
        assert torch.cuda.memory_allocated() - x.nbytes - (32 << 20) >= (4 + 12) * model.weight.nbytes


@pytest.mark.parametrize("foreach", [True, False])
def test_asgd_counts_its_steps(foreach: bool, tmp_path: Path) -> None:
    """It reads them on the GPU, to begin its averages. Lists of numbers are added to as one."""
    with vram.dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.Linear(64, 32, bias=False, device="cuda")
        optimizer = torch.optim.ASGD(model.parameters(), foreach=foreach)
        for _ in range(3):
            model(torch.ones(16, 64, device="cuda")).sum().backward()
            optimizer.step()
        assert optimizer.state[model.weight]["step"].item() == 3

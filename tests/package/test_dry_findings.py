"""Patterns of waste in real models: a finding states what the changed program saves, exactly (docs/findings.md)."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vram
from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")


def model() -> nn.Sequential:
    layers = (nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(6))
    return nn.Sequential(*layers, nn.Linear(1024, 8000))


def report_of(path: Path, zero_grad: str, *, has_graph: bool = True) -> Any:
    """Train with evaluations, with a graph or without; `zero_grad` is called after this part of the step."""
    with dry_run(gpu="H200", path=path):
        net = model().cuda()
        optimizer = torch.optim.AdamW(net.parameters())
        for _ in range(4):
            with torch.set_grad_enabled(has_graph):
                net(torch.randn(16384, 1024, device="cuda"))
            if zero_grad == "evaluation":
                optimizer.zero_grad()
            target = torch.zeros(4096, dtype=torch.long, device="cuda")
            loss = nn.functional.cross_entropy(net(torch.randn(4096, 1024, device="cuda")), target)
            if zero_grad == "forward":
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if zero_grad == "step":
                optimizer.zero_grad()
    return vram.load(path)


@pytest.mark.parametrize("zero_grad", ["evaluation", "forward"])
def test_gradients_kept_save_what_zero_grad_after_the_step_saves(tmp_path: Path, zero_grad: str) -> None:
    before, after = report_of(tmp_path / "before.vtrace", zero_grad), report_of(tmp_path / "after.vtrace", "step")
    (finding,) = (each for each in before.findings if each.kind == "gradients_kept")
    assert finding.peak_saved_bytes == before.peak.requested_bytes - after.peak.requested_bytes > 100 << 20
    assert finding.reserved_saved_bytes == before.peak.reserved_bytes - after.peak.reserved_bytes
    assert not any(each.kind == "gradients_kept" for each in after.findings)


@pytest.mark.parametrize("zero_grad", ["evaluation", "step"])
def test_evaluations_with_a_graph_save_no_more_than_no_grad_saves(tmp_path: Path, zero_grad: str) -> None:
    before = report_of(tmp_path / "before.vtrace", zero_grad)
    after = report_of(tmp_path / "after.vtrace", zero_grad, has_graph=False)
    (finding,) = (each for each in before.findings if each.kind == "no_grad")
    saved = before.peak.requested_bytes - after.peak.requested_bytes
    assert saved / 2 < finding.peak_saved_bytes <= saved
    assert not any(each.kind == "no_grad" for each in after.findings)

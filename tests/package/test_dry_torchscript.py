"""Dry runs of programs that give functions, classes and models to TorchScript."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")


@torch.jit.script
def logarithms(x: torch.Tensor, base: int) -> torch.Tensor:
    return torch.log(x) / torch.log(torch.tensor(base / 2))


def test_functions_of_torchscript_run(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        assert logarithms(torch.ones(1 << 18, device="cuda"), 8).shape == (1 << 18,)
    assert run.peak.requested_bytes >= 3 << 20  # x, its logarithm, and the result: no kernel is fused
    assert torch.equal(logarithms(torch.ones(2), 8), torch.zeros(2))


def test_torchscript_finds_names_where_it_is_called(tmp_path: Path) -> None:
    """As the classes of torch.distributed.optim, which are compiled when it is imported."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with dry_run(path=tmp_path / "dry.vtrace"):
        twice = torch.jit.script(doubled)

        class Scaled:
            def __init__(self, x: torch.Tensor) -> None:
                self.x = twice(x)

        assert torch.jit.script(Scaled)(torch.ones(2)).x.tolist() == [2, 2]


def test_modules_of_torchscript_run_as_they_are(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.ones(4, 8, device="cuda")
        for compiled in (torch.jit.script(nn.Linear(8, 3).cuda()), torch.jit.trace(nn.Linear(8, 3).cuda(), x)):
            compiled(x).sum().backward()
            assert next(compiled.parameters()).grad is not None
            compiled.save(str(tmp_path / "model.pt"))
        assert torch.jit.trace(torch.sin, x)(x).shape == (4, 8)
    assert not (tmp_path / "model.pt").exists()

"""Arguments that few programs give: no dimensions. A dry run has to run what runs on a GPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")


def roll(device: str) -> Any:
    return torch.roll(torch.ones(4, 5, device=device), 3).shape


def transform(device: str) -> Any:
    return torch.fft.fftn(torch.ones(4, 5, device=device), dim=()).shape, torch.fft.fftn(
        torch.ones((), device=device)
    ).shape


WITHOUT_DIMENSIONS = {"roll": roll, "transform": transform}


@pytest.mark.parametrize("program", WITHOUT_DIMENSIONS.values(), ids=WITHOUT_DIMENSIONS)
def test_operators_without_dimensions_run(program: Callable[[str], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        found = program("cuda")
    assert found == program("cpu")
    assert not run.unknown_operators

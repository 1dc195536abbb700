"""Arguments that few programs give: no dimensions, no elements. A dry run has to run what runs on a GPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")


def with_gradient(device: str, *shape: int) -> Any:
    return torch.ones(*shape, device=device, requires_grad=True)


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


def loss(compute: Callable[..., Any]) -> Callable[[str], Any]:
    def program(device: str) -> Any:
        x = with_gradient(device, 0, 4)
        compute(x, torch.ones(0, 4, device=device)).backward()
        return x.grad.shape

    return program


def normalization(device: str) -> Any:
    x, weight = with_gradient(device, 0, 3, 8, 8), with_gradient(device, 3)
    out = functional.batch_norm(
        x, torch.zeros(3, device=device), torch.ones(3, device=device), weight, weight, training=True
    )
    out.sum().backward()
    return out.shape, x.grad.shape, None if weight.grad is None else weight.grad.shape


def normalization_of_nothing(device: str) -> Any:
    x, nothing = torch.ones(0, device=device), torch.ones(0, device=device)
    return functional.batch_norm(x, nothing, nothing.clone(), training=True).shape


def attention(device: str) -> Any:
    query, key = torch.ones(2, 4, 7, 16, device=device), torch.ones(2, 4, 0, 16, device=device)
    return functional.scaled_dot_product_attention(query, key, key, torch.ones(7, 0, device=device)).shape


WITHOUT_ELEMENTS = {
    "mean squares": loss(functional.mse_loss),
    "smooth L1": loss(functional.smooth_l1_loss),
    "Huber": loss(functional.huber_loss),
    "batch normalization": normalization,
    "batch normalization without dimensions": normalization_of_nothing,
    "attention": attention,
}


@pytest.mark.parametrize("program", WITHOUT_ELEMENTS.values(), ids=WITHOUT_ELEMENTS)
def test_tensors_without_elements_run(program: Callable[[str], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        found = program("cuda")
    assert found == program("cpu")

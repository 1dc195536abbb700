"""vram.micro_batches compares a step with the whole batch now and then: for what that holds, and for how long."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import vram

pytestmark = pytest.mark.usefixtures("quick_collections")


def out_of_memory_in_backward(part: torch.Tensor, largest: int = 4) -> None:
    if len(part) > largest and torch.is_grad_enabled():
        raise torch.OutOfMemoryError("CUDA out of memory")


class Loss(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, out: torch.Tensor) -> torch.Tensor:
        compares = self.how == "compared" and self.training
        return nn.functional.cross_entropy(out @ out.T, torch.arange(len(out))) if compares else out.square().mean()


def by_closure(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def step(part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return Loss(how)(model(part))  # type: ignore[no-any-return]

    return step


def by_partial(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def step(part: torch.Tensor, how: str) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return Loss(how)(model(part))  # type: ignore[no-any-return]

    return functools.partial(step, how=how)


def by_default(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    def step(part: torch.Tensor, how: str = how) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return Loss(how)(model(part))  # type: ignore[no-any-return]

    return step


def by_module(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    loss = Loss(how)

    def step(part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return loss(model(part))  # type: ignore[no-any-return]

    return step


class Trainer:
    def __init__(self, model: nn.Module, how: str) -> None:
        self.model = model
        self.how = how

    def step(self, part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return Loss(self.how)(self.model(part))  # type: ignore[no-any-return]


def by_method(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return Trainer(model, how).step


def by_mode(model: nn.Module, how: str) -> Callable[[torch.Tensor], torch.Tensor]:
    model.train(how == "compared")

    def step(part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        loss = Loss("compared").train(model.training)
        return loss(model(part))  # type: ignore[no-any-return]

    return step


@pytest.mark.parametrize("make", [by_closure, by_partial, by_default, by_module, by_method, by_mode])
def test_what_was_shown_of_a_step_does_not_hold_for_another_of_the_same_code(make: Any) -> None:
    torch.manual_seed(4)
    model, batch = nn.Linear(4, 4), torch.randn(8, 4)
    apart = make(model, "apart")
    for _ in range(4):  # the next comparison comes at the eighth
        vram.micro_batches(batch, apart, model=model)
    before = [parameter.grad for parameter in model.parameters()]
    compared = make(model, "compared")
    with pytest.raises(vram.VramError, match="compares samples"):
        vram.micro_batches(batch, compared, model=model)
    assert all(parameter.grad is grad for parameter, grad in zip(model.parameters(), before, strict=True))


def test_precision_may_become_coarser() -> None:
    torch.manual_seed(4)
    model, batch, coarse = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)), torch.randn(30, 64), [False]

    def step(part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=coarse[0]):
            out = model(part)
            return out.abs().mean().float()  # type: ignore[no-any-return]

    for batches in range(4):
        coarse[0] = batches > 0
        assert vram.micro_batches(batch, step, model=model).count == 8

"""Changes of the optimizer of programs whose optimizers are inside others, as those of accelerate."""

# mypy: allow-untyped-calls

from __future__ import annotations

import functools
from typing import Any

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

"""What all probes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Probe = tuple[str, Callable[[], Any]]
F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16


def real(*shape: int, dtype: torch.dtype = F32, grad: bool = True) -> Tensor:
    return torch.randn(*shape, dtype=dtype).requires_grad_(grad)


def both(call: Callable[..., Tensor], *inputs: Tensor) -> Callable[[], None]:
    """Returns the forward and backward pass of `call`; its gradient has the shape of its output."""

    def run() -> None:
        out = call(*inputs)
        out.backward(torch.ones_like(out))
        for value in inputs:
            value.grad = None

    return run

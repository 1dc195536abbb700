"""The tensors of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor


def leaves(value: Any) -> Iterator[Any]:
    """The tensors of an operator's arguments or results."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)


def is_on_gpu(tensor: Any) -> bool:
    """Whether it is a fake tensor of the pretended GPU."""
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"

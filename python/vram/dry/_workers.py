"""Fake tensors that pass from one process to another: from the worker of a data loader, as a rule."""

# mypy: allow-untyped-calls

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from vram._texts import tr
from vram.dry._lines import users_line
from vram.dry._patches import Patches
from vram.dry._values import DryRunError

_fakes: Any = None  # PyTorch's fake mode of the dry run; other threads than its own receive tensors, too, such as the one that pins memory


def put_in_place(patches: Patches, fakes: Any) -> None:
    """Let queues between processes carry fake tensors of the CPU.

    Without this, the thread that feeds the queue of a worker prints an error for each batch, and the program waits for the batches forever.
    """
    global _fakes
    _fakes = fakes
    reducers: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    reducers[FakeTensor] = _reduced

    def end() -> None:
        global _fakes
        _fakes = None
        reducers.pop(FakeTensor, None)

    patches.on_undo(end)


def _reduced(tensor: Any) -> tuple[Any, ...]:
    if tensor.fake_device.type == "cuda":
        raise DryRunError(
            tr(
                "{}: a tensor on the GPU is sent to another process, which a dry run does not follow; "
                "send a tensor on the CPU, or leave the process out of the dry run"
            ).format(users_line())
        )
    return _made, (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad)


def _made(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, requires_grad: bool) -> Any:
    """Return a tensor of the CPU without values, in the process that receives it."""
    if _fakes is None:  # a process that was not forked is in no dry run
        return torch.empty_strided(shape, strides, dtype=dtype).zero_().requires_grad_(requires_grad)
    with _disable_current_modes():  # without PyTorch's fake mode, which only one thread can use at a time
        like = torch.empty_strided(shape, strides, dtype=dtype, device="meta", requires_grad=requires_grad)
        return FakeTensor(_fakes, like, torch.device("cpu"))

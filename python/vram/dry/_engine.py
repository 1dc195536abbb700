"""What autograd's engine and its C++ functions do differently with plain tensors than with fake ones."""

# mypy: allow-untyped-calls

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

_ENGINE = "_engine_run_backward"
# A mode of the program passes operators on.
_PASSES_ON = "__torch_dispatch__"
_TRANSPARENT = (
    "torch/_compile.py",
    "torch/_dynamo/eval_frame.py",
    "torch/_ops.py",
    "vram/dry/_mode.py",
    "vram/dry/_engine.py",
    "torch/utils/_stats.py",
)
# The only function that subtracts and multiplies in place if no tensor is of a subclass.
_LOSS = "BinaryCrossEntropyWithLogitsBackward0"


def is_caller() -> bool:
    """Whether the operator that is running was called by the engine or by a function of it in C++, and not by Python code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.endswith(_TRANSPARENT) or frame.f_code.co_name == _PASSES_ON):
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == _ENGINE


def is_running() -> bool:
    """Whether a backward pass runs in this thread, and calls the operator."""
    return torch._C._current_graph_task_id() != -1 and is_caller()


def is_of(function: str) -> bool:
    """Whether the gradient of this function of autograd is being computed; by the beginning of its name."""
    node = torch._C._current_autograd_node()
    return node is not None and node.name().startswith(function)


def writes_loss_gradient(tensor: Any, other: Any) -> bool:
    """Whether the gradient of a binary cross entropy is being computed, and the first operand is overwritten with the result."""
    if torch.is_grad_enabled() or not is_running():
        return False
    if not is_of(_LOSS):
        return False
    # The product of the weights of positive examples is a new tensor.
    return bool(tensor.shape == torch.broadcast_shapes(tensor.shape, getattr(other, "shape", ())))

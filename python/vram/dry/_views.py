"""Gradients of views that were written to in place.

PyTorch's autograd takes such a view for a strided part of its base, so that its gradient is copied into a tensor as large as the base
(AsStridedBackward). Of tensors of subclasses, as fake ones are, it repeats the operators that made the view instead, and no view of the whole base
needs memory for that. Here a hook on the view makes the copy. It is what ReLU in place after instance normalization comes to.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from vram.dry._tensors import is_on_gpu


class WrittenViews:
    """Views of whole tensors that were written to, until an operator reads them: only then does autograd know what they come from."""

    def __init__(self) -> None:
        self._waiting: dict[int, weakref.ref[Any]] = {}

    def see(self, func: Any, tensors: list[torch.Tensor]) -> None:
        """Take note of an operator that is about to run, in the autograd mode of the program."""
        written = tensors[0] if tensors and func._schema.is_mutable and func._schema.arguments[0].is_write else None
        if self._waiting:
            for tensor in tensors:
                # What is written to again comes from its base again.
                found = self._waiting.get(id(tensor))
                if tensor is not written and found is not None and found() is tensor:
                    del self._waiting[id(tensor)]
                    if tensor.requires_grad:
                        tensor.register_hook(_copying(tensor))
        if written is not None and torch.is_grad_enabled() and is_on_gpu(written) and _is_of_whole(written):
            number = id(written)
            self._waiting[number] = weakref.ref(written, lambda _: self._waiting.pop(number, None))


def _is_of_whole(tensor: Any) -> bool:
    return bool(tensor._is_view() and tensor.numel() == tensor._base.numel())


def _copying(view: Any) -> Callable[[Any], Any]:
    shape, strides = view.shape, view.stride()
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if view.numel() else 0

    def copy(gradient: Any) -> Any:
        return gradient.new_zeros(extent).as_strided(shape, strides).copy_(gradient)

    return copy

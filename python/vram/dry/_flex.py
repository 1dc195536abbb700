"""Flex attention, whose kernel a compiler makes: its results and gradients on a GPU.

Programs compile it, since it otherwise computes all scores. A dry run does not compile, and has its shapes from the source of PyTorch
(torch._higher_order_ops.flex_attention): the result, the logarithms of sums and the largest scores, and in backward one number for each
query besides the gradients. This is not measured.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib
import inspect
from typing import Any

import torch

from vram._texts import tr
from vram.dry._lines import warn
from vram.dry._patches import Patches
from vram.dry._tensors import is_on_gpu


def _like(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Return a new tensor with the order of strides of another one, the last dimension innermost."""
    last = len(shape) - 1
    order = [last, *sorted(range(last), key=lambda dim: (tensor.stride(dim), -dim))]
    strides, elements = [0] * len(shape), 1
    for dim in order:
        strides[dim] = elements
        elements *= shape[dim]
    return tensor.new_empty_strided(shape, strides)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, *buffers: Any) -> Any:
        rows = tuple(query.shape[:-1])
        sums = query.new_empty(rows, dtype=torch.float32)
        largest = query.new_empty(rows, dtype=torch.float32)
        out = _like(query, (*rows, value.size(-1)))
        ctx.save_for_backward(query, key, value, out, sums, largest, *buffers)
        ctx.mark_non_differentiable(largest)
        ctx.set_materialize_grads(False)
        return out, sums, largest

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key, value, _out, sums, _largest, *buffers = ctx.saved_tensors
        if gradients[0] is None and gradients[1] is None:
            return (None,) * (3 + len(buffers))
        delta = torch.empty_like(sums)
        of_query = _like(query, tuple(query.shape))
        of_value, of_key = (_like(each, (query.size(0), *each.shape[1:])) for each in (value, key))
        del delta
        if query.size(0) > 1 and key.size(0) == 1:
            of_key, of_value = of_key.sum(0, keepdim=True), of_value.sum(0, keepdim=True)
        of_buffers = (torch.empty_like(each, memory_format=torch.contiguous_format) for each in buffers)
        return of_query, of_key, of_value, *of_buffers


def _captured(score_mod: Any) -> list[Any]:
    """Return the tensors that a function takes from around it, and that get gradients."""
    if not inspect.isfunction(score_mod):
        return []
    found = inspect.getclosurevars(score_mod)
    values = (*found.nonlocals.values(), *found.globals.values())
    return [each for each in values if is_on_gpu(each) and each.requires_grad]


def put_in_place(patches: Patches) -> None:
    """Let flex_attention() call this where its operator would be compiled."""
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    operator = flex.flex_attention_hop

    def attended(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> Any:
        if not is_on_gpu(query):
            return operator(query, key, value, *rest, **named)
        warn(
            tr(
                "a dry run counts flex_attention() as compiled, by rules that were not measured; uncompiled, it holds all scores in addition"
            )
        )
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = (each.to(dtype) for each in (query, key, value))
        score_mod = rest[0] if rest else named.get("score_mod")
        return _Attention.apply(query, key, value, *_captured(score_mod))

    patches.put(flex, "flex_attention_hop", attended)

"""Batch normalization over the ranks of a process group: the results of its operators, which have no fake kernels.

They follow aten/src/ATen/native/cuda/Normalization.cuh. Statistics are float32 for inputs of half the size, as sums are.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any, Callable

import torch

_HALVES = (torch.float16, torch.bfloat16)


def _statistics(like: Any, channels: int) -> Any:
    return torch.empty(channels, dtype=torch.float32 if like.dtype in _HALVES else like.dtype, device=like.device)


def _local(_values: Any, _func: Any, args: Any) -> Any:
    channels = args[0].size(1)
    return _statistics(args[0], channels), _statistics(args[0], channels)


def _of_all(_values: Any, _func: Any, args: Any) -> Any:
    """The second argument has a row of means for each rank."""
    channels = args[1].size(-1)
    return _statistics(args[1], channels), _statistics(args[1], channels)


def _like_input(_values: Any, _func: Any, args: Any) -> Any:
    return torch.empty_like(args[0])


def _sums(_values: Any, _func: Any, args: Any) -> Any:
    """The last three arguments say of what gradients are needed: input, weight and bias."""
    image, mean, weight = args[1], args[2], args[4]
    of_input, of_weight, of_bias = args[5:8]
    channels = image.size(1)
    sums = [torch.empty(channels if of_input else 0, dtype=mean.dtype, device=mean.device) for _ in range(2)]
    of = mean if weight is None else weight
    gradients = [
        torch.empty(channels if each else 0, dtype=of.dtype, device=of.device) for each in (of_weight, of_bias)
    ]
    return (*sums, *gradients)


def _gradient(_values: Any, _func: Any, args: Any) -> Any:
    """The second argument is the input."""
    return torch.empty_like(args[1])


OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "aten::batch_norm_stats": _local,
    "aten::batch_norm_gather_stats_with_counts": _of_all,
    "aten::batch_norm_elemt": _like_input,
    "aten::batch_norm_backward_reduce": _sums,
    "aten::batch_norm_backward_elemt": _gradient,
}

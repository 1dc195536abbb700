"""Modes of PyTorch's dispatcher under which a step is run for comparison, or without talking to other ranks.

Imports PyTorch: imported itself only once the program has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from vram._error import VramError

# What random operators give instead: it must not depend on how many samples there are. randperm, which mixes samples, gives
# an order in which no sample stays where it is, so that a comparison sees it.
_CONSTANTS = {
    "rand": 0.5,
    "rand_like": 0.5,
    "uniform_": 0.5,
    "randn": 0.5,
    "randn_like": 0.5,
    "normal_": 0.5,
    "normal": 0.5,
    "exponential_": 1.0,
    "cauchy_": 0.5,
    "log_normal_": 1.0,
    "geometric_": 1.0,
    "random_": 0,
    "randint": 0,
    "randint_like": 0,
}
_DROPOUT_ARGUMENTS = ("dropout_p", "dropout")


class Comparing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it random operators give constants, and `scale()` says how large the terms are that a loss is made of.

    A loss may be a small difference of large terms (a mean of both signs, a critic's loss). What rounding does to it is in
    proportion to the terms.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._scales: dict[int, tuple[Any, float]] = {}  # by id(); the tensor is held, so that the id stays its own

    def scale(self, loss: Any) -> float:
        """Returns the sum of the sizes of the loss's terms, as far as they were seen; at least the loss's own size."""
        return self._size(loss)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        result = self._result(func, name, args, dict(kwargs or {}))
        for item in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(item, torch.Tensor) and item.dim() == 0 and item.is_floating_point() and not item.is_meta:
                value = abs(float(item))
                self._scales[id(item)] = (item, max(value, self._terms(name, args, kwargs or {}, value)))
        return result

    def _result(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        if name == "native_dropout":
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        if name in ("bernoulli", "bernoulli_"):
            given = args[1] if len(args) > 1 else kwargs.get("p", args[0] if name == "bernoulli" else 0.5)
            return (torch.empty_like(args[0]) if name == "bernoulli" else args[0]).copy_(
                torch.as_tensor(given, device=args[0].device)
            )
        for position, argument in enumerate(func._schema.arguments):
            if argument.name in _DROPOUT_ARGUMENTS:
                args, kwargs = _replaced(args, kwargs, position, argument.name, 0.0)
        result = func(*args, **kwargs)
        if name in _CONSTANTS:
            result.fill_(_CONSTANTS[name])
        elif name == "randperm":
            result.copy_(torch.arange(len(result), device=result.device).flip(0))
        elif name == "multinomial" and result.shape[-1] == 1:
            result.copy_(args[0].argmax(-1, keepdim=True))
        return result

    def _terms(self, name: str, args: Any, kwargs: Any, value: float) -> float:
        if name in ("mean", "sum") and args[0].numel() > 1:
            total = float(torch.linalg.vector_norm(args[0].detach().flatten(), 1, dtype=torch.float64))
            return total / args[0].numel() if name == "mean" else total
        if name in ("add", "sub", "rsub", "add_", "sub_") and len(args) > 1:
            return self._size(args[0]) + abs(float(kwargs.get("alpha", 1))) * self._size(args[1])
        if name in ("mul", "mul_"):
            return self._size(args[0]) * self._size(args[1])
        grown = [self._size(item) / abs(float(item)) for item in args if _is_scalar(item) and float(item)]
        return value * max(grown, default=1.0)

    def _size(self, item: Any) -> float:
        known = self._scales.get(id(item))
        if known is not None:
            return known[1]
        return abs(float(item)) if not isinstance(item, torch.Tensor) or item.numel() == 1 else 0.0


def _is_scalar(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dim() == 0 and item.is_floating_point()


def _replaced(args: Any, kwargs: dict[str, Any], position: int, name: str, value: float) -> tuple[Any, dict[str, Any]]:
    if position < len(args):
        return (*args[:position], value, *args[position + 1 :]), kwargs
    return args, ({**kwargs, name: value} if name in kwargs else kwargs)


class Silent(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it a collective raises VramError before anything is sent."""

    def __init__(self, why: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._why = why

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "c10d" in func.namespace:
            raise VramError(self._why)
        return func(*args, **(kwargs or {}))

"""Runs of a step that are compared with one another: nothing in them is random, and nothing may go from one to the next.

Imports PyTorch: imported itself only once the program has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from statistics import NormalDist
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from vram._error import VramError
from vram._texts import tr

# The uniform draw that all random operators of a run start from.
_MIDDLE = 0.6
_MAX_DRAWS = 100  # of one run with the same value: a step that draws more waits for another
_GOLDEN_RATIO = 0.6180339887498949
_LOOKUPS = ("embedding", "_embedding_bag", "_embedding_bag_forward_only")
_DROPOUT_ARGUMENTS = ("dropout_p", "dropout")
_NORMAL = NormalDist()


class Rehearsal:
    """Several runs of one step. allowed: tensors that are put back before each run."""

    # Draws of two runs that take both branches of `if torch.rand(()) < p`, and select all and nothing where a mask is drawn.
    extremes = (0.03, 0.97)

    def __init__(self, allowed: Iterable[torch.Tensor]) -> None:
        self._allowed = {key for tensor in allowed if (key := _storage_of(tensor)) is not None}
        # Changed in place, by runs that did not make them, and by which operator; by address.
        self._changed: dict[int, tuple[StorageWeakRef, str]] = {}
        self._carried: str | None = None

    @contextmanager
    def run(self, draw: float = _MIDDLE) -> Iterator[Comparing]:
        """Within it nothing is random. VramError: this run has used a tensor that an earlier one has changed."""
        mode, changed = Comparing(draw, self._note), dict(self._changed)
        self._now: dict[int, tuple[StorageWeakRef, str]] = {}
        self._made = set[int]()
        with mode:
            yield mode
        self._changed = {**changed, **self._now}
        if self._carried is not None:
            raise VramError(
                tr(
                    "step() changes a tensor in place that it did not make, and uses it ({}; a running "
                    "average, a queue, a weight): it would do so once for each micro-batch. Do that after "
                    "vram.micro_batches, or hold it in a buffer of a module in model="
                ).format(self._carried)
            )

    def _is_changed(self, key: int, name: str) -> bool:
        """By an earlier run, so that it makes a difference to the operator; and it is no other at the same address."""
        reference, by = self._changed.get(key, (None, ""))
        # A lookup bounds the norms of its own rows before.
        same = by == "embedding_renorm_" and name in _LOOKUPS
        return reference is not None and not same and not reference.expired()  # type: ignore[no-untyped-call]

    def _note(self, func: Any, args: Any, kwargs: Any, results: Iterable[torch.Tensor]) -> None:
        name, schema = func._schema.name.partition("::")[2], func._schema
        if name == "lift_fresh":  # what torch.tensor() makes
            self._made.update(key for item in results if (key := _storage_of(item)) is not None)
        if name == "_local_scalar_dense":  # a number that is only looked at
            return
        for position, argument in enumerate(schema.arguments):
            given = args[position] if position < len(args) else kwargs.get(argument.name)
            alias = argument.alias_info
            for item in given if isinstance(given, (list, tuple)) else (given,):
                key = _storage_of(item) if isinstance(item, torch.Tensor) else None
                if key is None or key in self._allowed or key in self._made:
                    continue
                if alias is not None and alias.is_write:
                    self._now[key] = StorageWeakRef(item.untyped_storage()), name  # type: ignore[no-untyped-call]
                elif alias is None and self._is_changed(key, name):
                    self._carried = f"{list(item.shape)} {str(item.dtype).partition('.')[2]}"
        if not any(returned.alias_info for returned in schema.returns):
            self._made.update(key for item in results if (key := _storage_of(item)) is not None)


class Comparing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it random operators give constants, and `scale()` says how large the terms are that a loss is made of.

    A loss may be a small difference of large terms (a mean of both signs, a critic's loss). What rounding does to it is in
    proportion to the terms. Constants do not depend on how many samples there are.
    """

    def __init__(self, draw: float, note: Callable[[Any, Any, Any, list[torch.Tensor]], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._draw = draw
        self._draws = 0
        self._note = note
        self._scales: dict[int, tuple[Any, float]] = {}  # by id(); the tensor is held, so that the id stays its own

    def scale(self, loss: Any) -> float:
        """Returns the sum of the sizes of the loss's terms, as far as they were seen; at least the loss's own size."""
        return self._size(loss)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        result = self._result(func, name, args, dict(kwargs or {}))
        items = [item for item in (result if isinstance(result, (tuple, list)) else (result,)) if _is_tensor(item)]
        self._note(func, args, kwargs or {}, items)
        for item in items:
            if item.dim() == 0 and item.is_floating_point() and not item.is_meta:
                value = abs(float(item.detach()))
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
        if name in _DRAWS:
            drawn = _DRAWS[name](self._uniform(), _Arguments(func, args, kwargs))
            result.copy_(drawn) if _is_tensor(drawn) else result.fill_(drawn)
        elif name == "randperm":  # an order in which no sample stays where it is, so that a comparison sees it
            result.copy_(torch.arange(len(result), device=result.device).flip(0))
        elif name == "multinomial" and result.shape[-1] == 1:
            result.copy_(args[0].argmax(-1, keepdim=True))
        return result

    def _uniform(self) -> float:
        self._draws += 1
        return (self._draw + max(0, self._draws - _MAX_DRAWS) * _GOLDEN_RATIO) % 1.0

    def _terms(self, name: str, args: Any, kwargs: Any, value: float) -> float:
        if name in ("mean", "sum") and args[0].numel() > 1:
            total = float(torch.linalg.vector_norm(args[0].detach().flatten(), 1, dtype=torch.float64))
            return total / args[0].numel() if name == "mean" else total
        if name in ("add", "sub", "rsub", "add_", "sub_") and len(args) > 1:
            return self._size(args[0]) + abs(float(kwargs.get("alpha", 1))) * self._size(args[1])
        if name in ("mul", "mul_"):
            return self._size(args[0]) * self._size(args[1])
        scalars = [(self._size(item), abs(float(item.detach()))) for item in args if _is_scalar(item)]
        grown = [size / alone for size, alone in scalars if alone]
        return value * max(grown, default=1.0)

    def _size(self, item: Any) -> float:
        known = self._scales.get(id(item))
        if known is not None:
            return known[1]
        if not _is_tensor(item):
            return abs(float(item))
        return abs(float(item.detach())) if item.numel() == 1 else 0.0


class _Arguments:
    """Of a call of an operator, by name."""

    def __init__(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        names = [argument.name for argument in func._schema.arguments]
        self._given = {**dict(zip(names, args)), **kwargs}

    def get(self, name: str, default: float) -> Any:
        given = self._given.get(name)
        return default if given is None else given


def _integer(draw: float, given: _Arguments) -> int:
    """From `low` (random_() calls it `from`) to the number before `high` (`to`)."""
    low = int(given.get("low", given.get("from", 0)))
    return low + int((int(given.get("high", given.get("to", low + 2))) - low) * draw)


def _gaussian(draw: float, given: _Arguments) -> Any:
    return given.get("mean", 0.0) + given.get("std", 1.0) * _NORMAL.inv_cdf(draw)


# What operators give instead of random numbers, where a uniform draw from 0 to 1 gives this one.
_DRAWS: dict[str, Callable[[float, _Arguments], Any]] = {
    "rand": lambda draw, _: draw,
    "rand_like": lambda draw, _: draw,
    "uniform_": lambda draw, given: (1 - draw) * given.get("from", 0.0) + draw * given.get("to", 1.0),
    "randn": _gaussian,
    "randn_like": _gaussian,
    "normal": _gaussian,
    "normal_": _gaussian,
    "log_normal_": lambda draw, given: math.exp(given.get("mean", 1.0) + given.get("std", 2.0) * _NORMAL.inv_cdf(draw)),
    "exponential_": lambda draw, given: -math.log(1 - draw) / given.get("lambd", 1.0),
    "cauchy_": lambda draw, given: (
        given.get("median", 0.0) + given.get("sigma", 1.0) * math.tan(math.pi * (draw - 0.5))
    ),
    "geometric_": lambda draw, given: max(1, math.ceil(math.log(1 - draw) / math.log1p(-given.get("p", 0.5)))),
    "random_": _integer,
    "randint": _integer,
    "randint_like": _integer,
}


def _is_tensor(item: Any) -> bool:
    return isinstance(item, torch.Tensor)


def _is_scalar(item: Any) -> bool:
    return _is_tensor(item) and item.dim() == 0 and item.is_floating_point()


def _storage_of(tensor: torch.Tensor) -> int | None:
    """Its address; None: it has none (sparse)."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def _replaced(args: Any, kwargs: dict[str, Any], position: int, name: str, value: float) -> tuple[Any, dict[str, Any]]:
    if position < len(args):
        return (*args[:position], value, *args[position + 1 :]), kwargs
    return args, ({**kwargs, name: value} if name in kwargs else kwargs)

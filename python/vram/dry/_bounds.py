"""The largest possible values of whole numbers on the GPU: positions, counts, and what is taken from known numbers.

A program reads such numbers to use them as sizes and indices, to log them, or to check that they are in a range, which is known then (_known.py). Each
storage of whole numbers has the largest value that any of its elements may have, if it is known. A write of something unknown ends it, as it ends
known values.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from vram.dry import _known
from vram.dry._tensors import leaves

_MAX = 1 << 53
_WHOLE = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


@dataclass(frozen=True)
class Largest:
    """The largest possible value.

    Attributes:
        number: The value.
        is_choice: The value is one of several that are as good, such as the position that argmax() finds; no count.
        is_signed: It may be negative.
    """

    number: int
    is_choice: bool = True
    is_signed: bool = False


Rule = Callable[[Any, Any], "Largest | None"]  # of the arguments and the result of an operator


def largest_of(tensor: Any) -> Largest | None:
    """Return the largest value that an element of a tensor may have; None: unknown, or it is no tensor of whole numbers."""
    if tensor.dtype == torch.bool:
        return Largest(1)
    if tensor.dtype not in _WHOLE or not tensor.numel():
        return None
    values = _known.value_of(tensor) if isinstance(tensor, FakeTensor) else tensor
    if values is None:
        dtype, largest = getattr(tensor.untyped_storage(), _known.BOUND, (None, None))
        # A view of another type may take the bytes of several elements for one number.
        return largest if dtype == tensor.dtype else None
    with _disable_current_modes():
        return Largest(int(values.max()), is_signed=bool(values.min() < 0))


def truth(*, is_number: bool) -> Largest | None:
    """Return the largest truth value; None: it is no number, and decides something."""
    return Largest(1, is_choice=False) if is_number else None


def _of(value: Any) -> Largest | None:
    """The same of an operator's argument."""
    if isinstance(value, torch.Tensor):
        return largest_of(value)
    return Largest(value, is_signed=value < 0) if isinstance(value, int) else None


def _size(tensor: Any, dim: Any) -> int:
    return int(tensor.size(dim if isinstance(dim, int) else -1)) if tensor.dim() else 1


def _argument(args: Any, place: int) -> Any:
    return args[place] if len(args) > place else None


def _position_in(place: int) -> Rule:
    """Of a position in the dimension that is argument number `place`; by default the last one."""
    return lambda args, _result: Largest(_size(args[0], _argument(args, place)) - 1)


def _position(args: Any, _result: Any) -> Largest:
    dim = _argument(args, 1)
    return Largest((args[0].numel() if dim is None else _size(args[0], dim)) - 1)


def _first(args: Any, _result: Any) -> Largest | None:
    return _of(args[0])


def _largest(values: Any) -> Largest | None:
    found = [_of(each) for each in values]
    known = [each for each in found if each is not None]
    if len(known) < len(found) or not known:
        return None
    return Largest(
        max(each.number for each in known), all(each.is_choice for each in known), any(each.is_signed for each in known)
    )


def _sum(args: Any, result: Any) -> Largest | None:
    each = _of(args[0])
    return (
        None
        if each is None or each.is_signed
        else Largest(each.number * (args[0].numel() // max(1, result.numel())), is_choice=False)
    )


def _running_sum(args: Any, _result: Any) -> Largest | None:
    each = _of(args[0])
    return None if each is None or each.is_signed else Largest(each.number * _size(args[0], args[1]), is_choice=False)


def _calculated(calculate: Callable[[int, int], int]) -> Rule:
    """Of two arguments that are not negative."""

    def of(args: Any, _result: Any) -> Largest | None:
        a, b = _of(args[0]), _of(args[1])
        if a is None or b is None or a.is_signed or b.is_signed:
            return None
        return Largest(calculate(a.number, b.number), a.is_choice and b.is_choice)

    return of


def _difference(a: Any, b: Any) -> Largest | None:
    from_, less = _of(a), _of(b)
    if from_ is None or less is None or less.is_signed:
        return None
    is_signed = not isinstance(a, int) or less.number > a
    return Largest(from_.number, from_.is_choice and less.is_choice, is_signed)


def _drawn(args: Any, _result: Any) -> Largest:
    """Of torch.randint(high, size) and torch.randint(low, high, size)."""
    low, high = args[:2] if isinstance(args[1], int) else (0, args[0])
    return Largest(high - 1, is_signed=low < 0)


def _by_number(change: Callable[[int, int], int]) -> Rule:
    """Of a quotient or remainder by a number of the program."""

    def rule(args: Any, _result: Any) -> Largest | None:
        found, by = _of(args[0]), args[1]
        if isinstance(by, torch.Tensor) and not isinstance(by, FakeTensor) and not by.dim():
            with _disable_current_modes():
                by = by.item()
        if found is None or found.is_signed or type(by) is not int or by < 1:
            return None
        return replace(found, number=change(found.number, by))

    return rule


# By operator: which of its results, and the rule.
_RULES: dict[str, tuple[int, Rule]] = {
    **dict.fromkeys(("argmax", "argmin"), (0, _position)),
    **dict.fromkeys(("max", "min", "median", "mode", "sort"), (1, _position_in(1))),
    **dict.fromkeys(("topk", "kthvalue"), (1, _position_in(2))),
    "multinomial": (0, lambda args, _result: Largest(_size(args[0], -1) - 1)),
    "nonzero": (0, lambda args, _result: Largest(max(args[0].shape, default=1) - 1)),
    "randint": (0, _drawn),
    "randperm": (0, lambda args, _result: Largest(args[0] - 1)),
    **dict.fromkeys(("clone", "_to_copy", "amax", "amin", "flip", "roll", "repeat"), (0, _first)),
    **dict.fromkeys(("_unique", "_unique2", "unique_consecutive", "unique_dim"), (0, _first)),
    **dict.fromkeys(("index", "index_select", "gather", "take", "masked_select"), (0, _first)),
    **dict.fromkeys(("cat", "stack"), (0, lambda args, _result: _largest(args[0]))),
    "where": (0, lambda args, _result: _largest(args[1:3])),
    "maximum": (0, lambda args, _result: _largest(args[:2])),
    **dict.fromkeys(("sum", "count_nonzero"), (0, _sum)),
    "cumsum": (0, _running_sum),
    "remainder": (0, _by_number(lambda number, by: min(number, by - 1))),
    **dict.fromkeys(("floor_divide", "div"), (0, _by_number(operator.floordiv))),
    "add": (0, _calculated(operator.add)),
    "mul": (0, _calculated(operator.mul)),
    "sub": (0, lambda args, _result: _difference(args[0], args[1])),
    "rsub": (0, lambda args, _result: _difference(args[1], args[0])),
    **dict.fromkeys(("minimum", "bitwise_and"), (0, _calculated(min))),
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
# Writes, by the number of the argument whose elements are written.
_WRITES = {
    "copy_": 1,
    "fill_": 1,
    "index_put_": 2,
    "masked_fill_": 2,
    "index_fill_": 3,
    "scatter_": 3,
    "index_copy_": 3,
}


def follow(func: Any, args: Any, kwargs: Any, result: Any) -> None:
    """Note the values of an operator's results, and of what it writes to, and their largest possible ones."""
    name = func._schema.name.removeprefix("aten::")
    found = None
    if not _has_rules(name, args, kwargs):
        pass
    elif name in _WRITES and isinstance(args[0], FakeTensor) and args[0].dtype in _WHOLE:
        found = args[0], _after_write(name, args)
    elif name in _RULES:
        place, rule = _RULES[name]
        # A stable sort has its dimension by name.
        of_rule = (args[0], kwargs["dim"]) if name == "sort" and "dim" in kwargs else args
        outputs = list(leaves(result))
        if place == 1 and len(outputs) == 1:  # max() and its relatives of all elements
            place, rule = 0, _first
        if place < len(outputs) and outputs[place].dtype in _WHOLE:
            found = outputs[place], rule(of_rule, outputs[place])
    _known.follow(func, args, kwargs, result)
    if found is not None and found[1] is not None and found[1].number < _MAX:
        setattr(found[0].untyped_storage(), _known.BOUND, (found[0].dtype, found[1]))
    if name in _COMPARISONS and isinstance(args[0], FakeTensor) and type(args[1]) in (int, float):
        answer = _compared(name, largest_of(args[0]), args[1])
        if answer is not None:
            _known.fill(result, answer)


def _compared(name: str, bound: Largest | None, number: float) -> bool | None:
    """Return what all elements answer to a comparison with a number; None: not known, or not the same."""
    if bound is None:
        return None
    least = -math.inf if bound.is_signed else 0
    if name in ("eq", "ne"):
        return None if least <= number <= bound.number else name == "ne"
    answers = {_COMPARISONS[name](end, number) for end in (least, bound.number)}
    return answers.pop() if len(answers) == 1 else None


def _has_rules(name: str, args: Any, kwargs: Any) -> bool:
    """Whether the rules hold for a call: they know neither factors of what is added, nor writes that add to what is there."""
    accumulates = "reduce" in kwargs or (name == "index_put_" and bool(_argument(args, 3)))
    return kwargs.get("alpha", 1) == 1 and not accumulates


def _after_write(name: str, args: Any) -> Largest | None:
    written, value = args[0], _argument(args, _WRITES[name])
    is_whole = written.nbytes == written.untyped_storage().nbytes()
    if is_whole and (
        name in ("copy_", "fill_") or (name in ("scatter_", "index_copy_") and _is_everywhere(written, args[2]))
    ):
        return _of(value)
    return _largest((written, value))


def _is_everywhere(written: Any, index: Any) -> bool:
    """Whether an index is known to name each element of a tensor of one dimension."""
    if written.dim() != 1 or index.numel() < written.numel():
        return False
    positions = _known.value_of(index) if isinstance(index, FakeTensor) else index
    with _disable_current_modes():
        return positions is not None and len(positions.unique()) == written.numel()

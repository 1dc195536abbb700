"""For what something was shown by trying it: a function's code, and what it was given as far as that tells kinds apart.

Functions and lambdas are known by their code, since a new one for each batch is usual. Flags and names that they hold (in
closures, defaults, functools.partial) count by value, modules and objects by identity. Numbers do not: many are counters.
"""

from __future__ import annotations

import enum
import functools
import weakref
from typing import Any

_MAX_DEPTH = 4  # of functions that functions hold


def claim_of(value: Any, depth: int = 0) -> Any:
    """Hashable, and equal for values with which something behaves alike."""
    if value is None or isinstance(value, (bool, str, enum.Enum)):
        return type(value), value
    if depth >= _MAX_DEPTH:
        return type(value)
    if isinstance(value, functools.partial):
        return _claims(
            [value.func, *value.args, *(item for pair in sorted(value.keywords.items()) for item in pair)], depth
        )
    if hasattr(value, "named_modules"):
        return _identity(value), tuple(module.training for module in value.modules())
    if hasattr(value, "__code__"):
        return value.__code__, _identity(getattr(value, "__self__", None)), _claims(_held(value), depth)
    return _identity(value) if callable(value) else type(value)


def _claims(values: list[Any], depth: int) -> Any:
    return tuple(claim_of(value, depth + 1) for value in values)


def _held(function: Any) -> list[Any]:
    """What comes with it from one call to the next."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]
    named = getattr(function, "__kwdefaults__", None) or {}
    return [*cells, *(getattr(function, "__defaults__", None) or ()), *named.values()]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _identity(value: Any) -> Any:
    """Keeps nothing alive. Where the class says what is equal, or nothing can refer to it weakly: the class."""
    kind: Any = type(value)
    try:
        return weakref.ref(value) if kind.__hash__ is object.__hash__ else kind
    except TypeError:
        return kind

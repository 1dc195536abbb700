"""Public classes and functions report the module that users import them from: in reprs, tracebacks and documentation."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any, get_type_hints


def publish(namespace: dict[str, Any]) -> None:
    """Set ``__module__`` of what a public module lists in ``__all__``. Pickles find it there, too."""
    for name in namespace["__all__"]:
        thing = namespace.get(name)
        if is_dataclass(thing):
            with suppress(TypeError):  # Python 3.9 cannot evaluate "int | None"
                thing.__annotations__ = get_type_hints(thing)  # by the names of the module that defines it
        if isinstance(thing, (type, FunctionType)):
            thing.__module__ = namespace["__name__"]

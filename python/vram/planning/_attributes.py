"""Attributes of a block that are no parameters or buffers, and random numbers that are not PyTorch's, as a call found them.

A counter, a flag, a generator or a cache that is filled in the first call can decide what a block computes: a repetition gets them as they
were, and the program finds them afterwards as they are.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import random
import sys
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from vram._error import VramError
from vram._texts import tr
from vram.planning._kept import is_source_of_random_numbers, version

_PLAIN = (bool, int, float, complex, str, type(None))


class Attributes:
    """What the modules of a block had when a call of it began. Modules of PyTorch itself keep nothing in attributes."""

    def __init__(self, parts: Sequence[Any]) -> None:
        own = [part for part in parts if not type(part).__module__.startswith("torch.nn.modules.")]
        self._plain: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._tensors: list[tuple[Any, str, weakref.ref[Any], int]] = []
        self._sources: list[tuple[Any, Any]] = [(source, _position(source)) for source in _global_sources()]
        for part in own:
            members = part.__dict__
            plain = {name: value for name, value in members.items() if isinstance(value, _PLAIN) and name != "training"}
            self._plain.append((members, plain))
            for name, value in members.items():
                if isinstance(value, torch.Tensor):
                    self._tensors.append((part, name, weakref.ref(value), version(value)))
                elif is_source_of_random_numbers(value):
                    self._sources.append((value, _position(value)))

    def refuse_changes(self, when: str) -> None:
        """Raise VramError: a tensor was changed in place that is an attribute."""
        for part, name, tensor, was in self._tensors:
            now = part.__dict__.get(name)
            if isinstance(now, torch.Tensor) and now is tensor() and version(now) != was:
                raise VramError(
                    tr(
                        "the tensor '{}' of a {} is changed in place {}, so that running this block again gives other "
                        "values; keep this block out of checkpointing, or assign a new tensor"
                    ).format(name, type(part).__name__, when)
                )

    @contextlib.contextmanager
    def as_before(self) -> Iterator[None]:
        """Set all back as it was, and afterwards to what it is now."""
        positions = [(source, _position(source)) for source, _ in self._sources]
        now = [
            (members, {name: members[name] for name in plain if name in members and members[name] is not plain[name]})
            for members, plain in self._plain
        ]
        try:
            for source, position in self._sources:
                _set_position(source, position)
            for (members, changed), (_, plain) in zip(now, self._plain):
                members.update({name: plain[name] for name in changed})
            yield
        finally:
            for (members, changed), (_, plain) in zip(now, self._plain):
                members.update({name: changed.get(name, value) for name, value in plain.items() if name in members})
            for source, position in positions:
                _set_position(source, position)


def _global_sources() -> list[Any]:
    """Python's own random numbers, and NumPy's; the modules have the functions of their sources."""
    numpy: Any = sys.modules.get("numpy")
    return [random, *([numpy.random] if hasattr(numpy, "random") else [])]


def _position(source: Any) -> Any:
    for name in ("getstate", "get_state"):
        if hasattr(source, name):
            return getattr(source, name)()
    return source.bit_generator.state  # of numpy.random.Generator


def _set_position(source: Any, position: Any) -> None:
    for name in ("setstate", "set_state"):
        if hasattr(source, name):
            getattr(source, name)(position)
            return
    source.bit_generator.state = position

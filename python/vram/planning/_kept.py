"""Arguments of blocks that a repetition gets as they were: they must not have changed since the first run.

PyTorch checks the versions of tensors that autograd saved. Here, what other arguments hold is compared as well, as far as it can be seen.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import dataclasses
import zlib
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from vram._error import VramError
from vram._texts import tr

if TYPE_CHECKING:
    from vram.planning._calls import Block

_MAX_COMPARED_BYTES = 1 << 20  # of an array or a bytearray
# By name: TorchDynamo, which may trace this module, does not know all of these classes.
_SOURCES = {
    ("torch._C", "Generator"),
    ("random", "Random"),
    ("numpy.random._generator", "Generator"),
    ("numpy.random.mtrand", "RandomState"),
}


def tensors_in(values: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def is_source_of_random_numbers(value: Any) -> bool:
    """Whether it is an object that gives other random numbers each time."""
    return any((base.__module__, base.__name__) in _SOURCES for base in type(value).__mro__)


def _state(value: Any, depth: int = 3) -> Any:
    """What differs after a value was changed in place; None: it has no state that can be seen."""
    if isinstance(value, torch.Tensor):
        return version(value)
    if isinstance(value, bytearray) or (type(value).__module__, type(value).__name__) == ("numpy", "ndarray"):
        items = value if isinstance(value, bytearray) else value.flat
        data = bytes(items[: _MAX_COMPARED_BYTES // getattr(value, "itemsize", 1)])
        return (len(items), zlib.crc32(data))
    if isinstance(value, (type, MethodType, torch.nn.Module)) or depth <= 0:
        return None
    if isinstance(value, (set, frozenset)):
        return {id(leaf) for leaf in value}
    members = _members(value)
    return None if members is None else [(id(leaf), _state(leaf, depth - 1)) for leaf in tree_leaves(members)]


def _members(value: Any) -> Any:
    """What a value refers to: attributes, or what a function has from around it; None: nothing that can be seen."""
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        return [*(_content(cell) for cell in cells), value.__defaults__, value.__kwdefaults__]
    slots = [name for base in type(value).__mro__ for name in _names(base.__dict__.get("__slots__", ()))]
    found = {name: getattr(value, name) for name in slots if name != "__dict__" and hasattr(value, name)}
    if hasattr(value, "__dict__"):
        found.update(vars(value))
    return found or None


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _without_graph(value: Any) -> Any:
    """Return the value without its graph, which would keep the region that it comes from, and so itself."""
    if isinstance(value, torch.Tensor):
        return value if value.is_leaf else value.detach().requires_grad_(value.requires_grad)
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, torch.nn.Module)):
        made = copy.copy(value)
        for each in dataclasses.fields(value):
            if hasattr(value, each.name):
                object.__setattr__(made, each.name, tree_map(_without_graph, getattr(value, each.name)))
        return made
    return value


class Kept:
    """A value that a repetition gets as it is: an argument from between blocks, or one that is no tensor.

    A dataclass is copied, so the block may set its fields.
    """

    def __init__(self, value: Any, block: Block) -> None:
        name = type(value).__name__
        if is_source_of_random_numbers(value):
            name = "torch.Generator" if isinstance(value, torch.Generator) else name
            raise VramError(
                tr(
                    "{} takes a {}, and running it again would draw other numbers; keep this block out of "
                    "checkpointing, or draw its numbers before the block"
                ).format(block.kind, name)
            )
        if isinstance(value, Iterator):
            raise VramError(
                tr(
                    "{} takes an iterator ({}), which would be further when the block runs again; keep this "
                    "block out of checkpointing, or call next() before the block"
                ).format(block.kind, name)
            )
        self._value = _without_graph(value)
        self._kind, self._block_kind, self._state = name, block.kind, _state(self._value)

    def get(self) -> Any:
        self.refuse_changes()
        return _without_graph(self._value)

    def refuse_changes(self) -> None:
        if _state(self._value) != self._state:
            raise VramError(
                tr(
                    "an argument of {} is changed in place, which changes the {} that running the block "
                    "again needs; keep this block out of checkpointing, or give it a copy"
                ).format(self._block_kind, self._kind)
            )

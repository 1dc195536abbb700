"""Batches: trees of tensors, cut along dimension 0 and joined again. Knows no framework: a tensor has shape and slices.

Taken apart are mappings (dict, Hugging Face's BatchEncoding and ModelOutput), lists, tuples (named ones too) and
dataclasses. A list without tensors that has as many items as there are samples is one item a sample, and is cut too.
Everything else (numbers, text, None, tensors without dimensions) goes whole to each part.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from vram._error import VramError


class Leaves(Protocol):
    """What a framework knows of tensors in a tree."""

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Along dimension 0."""

    def is_close(self, one: Any, other: Any, exact: bool) -> bool:
        """Whether they are the same, but for rounding if not exact."""


def samples(batch: Any) -> int:
    """How many the batch has: dimension 0 of all of its tensors. VramError: they differ, or there is none."""
    sizes = {int(leaf.shape[0]): path for path, leaf in _tensors(batch, "batch")}
    if len(sizes) == 1:
        return next(iter(sizes))
    found = ", ".join(f"{path} has {size}" for size, path in sizes.items()) or "no tensor"
    raise VramError(
        f"a batch is cut along dimension 0, which must be as long in each of its tensors; found: {found}. "
        "Pass samples=N and split=function(batch, start, stop) to cut it yourself"
    )


def part(batch: Any, start: int, stop: int, total: int) -> Any:
    """Samples start to stop-1. Tensors of it are views."""
    if _is_tensor(batch):
        return batch[start:stop]
    if isinstance(batch, list) and len(batch) == total and next(_tensors(batch, ""), None) is None:
        return batch[start:stop]
    return _rebuilt(batch, lambda _key, child: part(child, start, stop, total))


def join(parts: Sequence[Any], lengths: Sequence[int], leaves: Leaves, advice: str, path: str = "the result") -> Any:
    """Trees of the same form become one: what has an item for each of the parts' `lengths` samples is joined.

    VramError: something has not, and is not the same in all parts either.
    """
    first = parts[0]
    if _is_tensor(first) and all(_is_tensor(one) and one.shape[0] == n for one, n in zip(parts, lengths)):
        return leaves.concatenate(parts)
    is_list = isinstance(first, list) and next(_tensors(first, ""), None) is None
    if is_list and all(isinstance(one, list) and len(one) == n for one, n in zip(parts, lengths)):
        return [item for one in parts for item in one]
    forms = [(type(one), [key for key, _ in _children(one)]) for one in parts]
    if forms[0][1] and all(form == forms[0] for form in forms):
        return _rebuilt(
            first,
            lambda key, _child: join(
                [_child_at(one, key) for one in parts], lengths, leaves, advice, f"{path}[{key!r}]"
            ),
        )
    for one in parts[1:]:
        if difference(first, one, leaves, exact=True) is not None:
            raise VramError(f"{path} is neither one value for each sample nor the same in all parts. {advice}")
    return first


def difference(one: Any, other: Any, leaves: Leaves, path: str = "the result", *, exact: bool = False) -> str | None:
    """Where two trees differ, if not exact but for rounding; None: nowhere."""
    if hasattr(one, "shape") or isinstance(one, float):
        alike = type(one) is type(other) and leaves.is_close(one, other, exact)
        return None if alike else path
    form, other_form = ((type(tree), [key for key, _ in _children(tree)]) for tree in (one, other))
    if form != other_form:
        return path
    if form[1]:
        found = (
            difference(child, _child_at(other, key), leaves, f"{path}[{key!r}]", exact=exact)
            for key, child in _children(one)
        )
        return next((where for where in found if where is not None), None)
    return None if one is other or bool(one == other) else path


def _is_tensor(item: Any) -> bool:
    return hasattr(item, "shape") and hasattr(item, "__getitem__") and len(item.shape) > 0


def _is_dataclass(item: Any) -> bool:
    return dataclasses.is_dataclass(item) and not isinstance(item, type)


def _children(item: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(item, Mapping):
        yield from item.items()
    elif isinstance(item, (list, tuple)):
        yield from enumerate(item)
    elif _is_dataclass(item):
        for field in dataclasses.fields(item):
            yield field.name, getattr(item, field.name)


def _child_at(item: Any, key: Any) -> Any:
    return getattr(item, key) if _is_dataclass(item) and not isinstance(item, Mapping) else item[key]


def _tensors(item: Any, path: str) -> Iterator[tuple[str, Any]]:
    if _is_tensor(item):
        yield path, item
        return
    for key, child in _children(item):
        yield from _tensors(child, f"{path}[{key!r}]")


def _rebuilt(item: Any, change: Callable[[Any, Any], Any]) -> Any:
    """The same kind of container with changed children; whatever is no container comes back as it is."""
    changed = {key: change(key, child) for key, child in _children(item)}
    if isinstance(item, Mapping):
        return _rebuilt_mapping(item, changed)
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return type(item)(*changed.values())
    if isinstance(item, (list, tuple)):
        return type(item)(changed.values())
    if _is_dataclass(item):
        result = copy.copy(item)
        for name, child in changed.items():
            object.__setattr__(result, name, child)  # also if it is frozen: this copy is not shared yet
        return result
    return item


def _rebuilt_mapping(item: Any, changed: dict[Any, Any]) -> Any:
    """By copying where that works: classes such as BatchEncoding have more in them than their items."""
    result = copy.copy(item)
    if not hasattr(result, "__setitem__"):
        return type(item)(changed)
    for key, child in changed.items():
        result[key] = child
    return result

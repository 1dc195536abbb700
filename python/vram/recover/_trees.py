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
from vram._texts import tr


class Leaves(Protocol):
    """What a framework knows of tensors in a tree."""

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Along dimension 0."""

    def is_close(self, one: Any, other: Any, exact: bool) -> bool:
        """Whether they are the same, but for rounding if not exact."""


def samples(batch: Any) -> int:
    """How many the batch has: dimension 0 of all of its tensors. ValueError: they differ, or there is none."""
    sizes = {int(leaf.shape[0]): path for path, leaf in tensors(batch)}
    if len(sizes) == 1:
        return next(iter(sizes))
    found = ", ".join(f"{path} has {size}" for size, path in sizes.items()) or "no tensor"
    raise ValueError(
        tr(
            "a batch is cut along dimension 0, which must be as long in each of its tensors; found: "
            "{}. Pass samples=N and split=function(batch, start, stop) to cut it yourself"
        ).format(found)
    )


def part(batch: Any, start: int, stop: int, total: int) -> Any:
    """Samples start to stop-1. Tensors of it are views."""
    if _is_tensor(batch):
        return batch[start:stop]
    if isinstance(batch, list) and len(batch) == total and next(_tensors(batch, ""), None) is None:
        return batch[start:stop]
    return _rebuilt(batch, lambda _key, child: part(child, start, stop, total))


class Joining:
    """Puts results of parts together, leaf by leaf: values for each sample are joined, what is the same in all parts is kept.

    like: how other parts' results were put together. What was not joined there is not joined here, whatever its size.
    """

    def __init__(self, leaves: Leaves, advice: str, like: Joining | None = None) -> None:
        self._leaves = leaves
        self._advice = advice
        self._like = like
        self._joined: set[str] = set()
        self._kept: dict[str, Any] = {}

    def result(self, parts: Sequence[Any], lengths: Sequence[int], path: str = "the result") -> Any:
        """Of trees of the same form, for parts of so many samples.

        VramError: something is neither one value for each sample nor the same in all parts.
        """
        first = parts[0]
        if self._like is None or path in self._like._joined:
            joined = self._each_sample(parts, lengths, path)
            if joined is not None:
                self._joined.add(path)
                return joined
        forms = [(type(one), [key for key, _ in _children(one)]) for one in parts]
        if forms[0][1] and all(form == forms[0] for form in forms):
            return _rebuilt(
                first, lambda key, _: self.result([_child_at(one, key) for one in parts], lengths, f"{path}[{key!r}]")
            )
        for one in parts[1:]:
            if difference(first, one, self._leaves, exact=True) is not None:
                raise VramError(
                    tr("{} is neither one value for each sample nor the same in all parts. {}").format(
                        path, self._advice
                    )
                )
        self._kept[path] = first.detach() if hasattr(first, "detach") else first
        return first

    def is_as(self, other: Joining) -> bool:
        """Whether the same was joined and kept as there, with the same values."""
        return (
            self._joined == other._joined
            and self._kept.keys() == other._kept.keys()
            and difference(self._kept, other._kept, self._leaves, exact=True) is None
        )

    def _each_sample(self, parts: Sequence[Any], lengths: Sequence[int], path: str) -> Any:
        """None: there is not one value for each."""
        first = parts[0]
        if _is_tensor(first) and all(_is_tensor(one) and one.shape[0] == n for one, n in zip(parts, lengths)):
            if len({tuple(one.shape[1:]) for one in parts}) > 1:
                shapes = ", ".join(str(tuple(one.shape)) for one in parts[:4])
                raise VramError(
                    tr("{} has other extents in each part ({}) and can't be joined. {}").format(
                        path, shapes, self._advice
                    )
                )
            return self._leaves.concatenate(parts)
        is_list = isinstance(first, list) and next(_tensors(first, ""), None) is None
        if is_list and all(isinstance(one, list) and len(one) == n for one, n in zip(parts, lengths)):
            return [item for one in parts for item in one]
        return None


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


def tensors(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yields those that can be cut, each with the path to it."""
    yield from _tensors(batch, "batch")


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

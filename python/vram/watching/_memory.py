"""Names the memory of tensors: one name for each storage, however many tensors share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Callable

from vram import _marks
from vram.watching._phases import Engine

_MAX_ARGUMENT_DEPTH = 3
# What tensors without memory raise when they are asked for it; ValueError: parameters of lazy modules before their first call.
_HAS_NONE = (RuntimeError, NotImplementedError, ValueError)


def _nothing_is_pretended(_tensor: Any) -> tuple[int, int, int] | None:
    return None


# Set during a dry run, whose tensors have made-up memory: device, address and bytes; None: not a tensor of the dry run.
pretended: Callable[[Any], tuple[int, int, int] | None] = _nothing_is_pretended


def is_tensor(value: Any) -> bool:
    """By its type: what traces a program has values that answer to any name."""
    return hasattr(type(value), "untyped_storage")


def _plain(tensor: Any) -> Iterator[Any]:
    """Tensors made of others (DTensor, quantized ones) have no memory of their own."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for part in flatten(tensor)[0]:
        if is_tensor(getattr(tensor, part)):
            yield from _plain(getattr(tensor, part))


def _storage(tensor: Any) -> tuple[int, int, int] | None:
    """Device, address and bytes; None: it has none that counts (another kind of device, sparse, fake, freed)."""
    made_up = pretended(tensor)
    if made_up is not None:
        return made_up
    device = tensor.device
    if device.type not in _marks.DEVICE_TYPES:
        return None
    try:
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except _HAS_NONE:
        return None
    return (device.index or 0, address, size) if address and size else None


def address(tensor: Any) -> int:
    """Of its first element; 0: it has none."""
    made_up = pretended(tensor)
    if made_up is not None:
        return made_up[1]
    try:
        return int(next(_plain(tensor), tensor).data_ptr())
    except _HAS_NONE:
        return 0


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """The tensors of the arguments of a call that nothing computed with gradients."""
    if is_tensor(value):
        if not value.requires_grad:
            yield value
    elif depth < _MAX_ARGUMENT_DEPTH and isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part, depth + 1)


def _common(names: list[str]) -> str:
    """Return the one name, or what all begin with (layers.0.attention.*)."""
    if len(names) == 1:
        return names[0]
    parts = [name.split(".") for name in names]
    same = []
    for level in zip(*parts):
        if len(set(level)) > 1:
            break
        same.append(level[0])
    return ".".join([*same, "*"]) if same else f"{names[0]} and {len(names) - 1} more"


def name_tensors(tensors: Iterable[tuple[str, Any]], category: str) -> None:
    storages: dict[tuple[int, int, int], list[str]] = {}
    for name, tensor in tensors:
        for part in _plain(tensor):
            storage = _storage(part)
            if storage is not None:
                storages.setdefault(storage, []).append(name)
    for (device, start, size), names in storages.items():
        _marks.name_memory(device, start, size, _common(names), category)


def name_gradients(parameters: list[Any], names: list[str], encoded: list[bytes]) -> None:
    """Name the gradients that there are. `encoded`: the names as bytes."""
    shared: list[tuple[int, int, int, list[int]]] = []
    left: Iterable[int] = range(len(parameters))
    if Engine.native is not None and pretended is _nothing_is_pretended:
        shared, left = Engine.native.name_gradients(parameters, encoded, _marks.DEVICE_TYPES)
    for device, start, size, indices in shared:
        _marks.name_memory(device, start, size, _common([names[i] for i in indices]), "gradient")
    gradients = ((names[i], parameters[i].grad) for i in left)
    name_tensors(((name, gradient) for name, gradient in gradients if gradient is not None), "gradient")

"""What a program saved with torch.save(): a dry run saves nothing, but remembers the shapes of tensors, so that the program can load them again."""

# mypy: allow-untyped-calls

from __future__ import annotations

import argparse
import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class _Opaque(Exception):
    """The program saved something else than modules, containers of tensors and plain values."""


@dataclass(frozen=True)
class _Storage:
    size_bytes: int
    device: torch.device


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    key: int  # equal for tensors of the same storage
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    needs_gradient: bool
    is_parameter: bool


@dataclass(frozen=True)
class _Values:
    """A tensor of the CPU with values."""

    tensor: Any
    needs_gradient: bool
    is_parameter: bool


@dataclass(frozen=True)
class _Module:
    """A module that has descriptions in place of its parameters and buffers, and these."""

    module: Any
    described: tuple[Any, ...]


def remembered(saved: Any) -> Any:
    """Return a description of what is saved, without its tensors; None: it cannot be described."""
    try:
        return _mapped(saved, _described)
    except (_Opaque, RecursionError):  # containers may contain themselves
        return None


def _described(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, torch.nn.Module):
            return _of_module(value)
        if isinstance(value, argparse.Namespace) or type(value).__module__ == "numpy":
            return copy.deepcopy(value)
        raise _Opaque
    if not isinstance(value, FakeTensor):
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise _Opaque
        return _Values(value.detach().clone(), value.requires_grad, isinstance(value, torch.nn.Parameter))
    storage = value.untyped_storage()
    place = _Storage(storage.nbytes(), value.fake_device)
    shape, stride = tuple(map(int, value.shape)), tuple(map(int, value.stride()))
    offset, is_parameter = int(value.storage_offset()), isinstance(value, torch.nn.Parameter)
    return _Tensor(place, storage._cdata, value.dtype, shape, stride, offset, value.requires_grad, is_parameter)


def _of_module(module: Any) -> _Module:
    described: dict[int, Any] = {}
    for part in module.modules():
        for tensor in (*part._parameters.values(), *part._buffers.values()):
            if tensor is not None and id(tensor) not in described:
                described[id(tensor)] = _described(tensor)
    # Copies of other tensors would take memory.
    if any(id(tensor) not in described for part in module.modules() for tensor in _tensors_of(vars(part))):
        raise _Opaque
    try:
        copied = copy.deepcopy(module, dict(described))
    except Exception:  # of a class that cannot be copied so
        raise _Opaque from None
    return _Module(copied, tuple(described.values()))


def _tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors in containers, without those of the modules in them."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple, set)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _tensors_of(each)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        if type(value) not in (dict, OrderedDict):
            raise _Opaque
        return type(value)((key, _mapped(each, change)) for key, each in value.items())
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, change) for each in value)
    return change(value)


def loaded(description: Any, map_location: Any, fakes: FakeTensorMode) -> Any:
    """Return new tensors of a description, where torch.load() places them."""
    storages: dict[int, Any] = {}

    def part(value: Any) -> Any:
        if isinstance(value, _Values):
            return _as_saved(value.tensor.clone().to(_placed(torch.device("cpu"), map_location)), value)
        if not isinstance(value, _Tensor):
            return copy.deepcopy(value)  # the program may change it
        if value.key not in storages:
            storages[value.key] = _storage(value.storage, map_location, fakes)
        with torch.no_grad():
            there = storages[value.key].view(value.dtype).as_strided(value.shape, value.stride, value.offset)
        return _as_saved(there, value)

    def made(value: Any) -> Any:  # which does not name itself: a cycle would hold the storages
        if isinstance(value, _Module):
            return copy.deepcopy(value.module, {id(each): part(each) for each in value.described})
        return part(value)

    return _mapped(description, made)


def _as_saved(tensor: Any, saved: _Tensor | _Values) -> Any:
    if saved.is_parameter:
        return torch.nn.Parameter(tensor, saved.needs_gradient)
    return tensor.requires_grad_(saved.needs_gradient)


def _storage(storage: _Storage, map_location: Any, fakes: FakeTensorMode) -> Any:
    device = _placed(storage.device, map_location)
    if device.type == "cuda":
        return torch.empty(storage.size_bytes, dtype=torch.uint8, device=device)
    return FakeTensor(fakes, torch.empty(storage.size_bytes, dtype=torch.uint8, device="meta"), device)


def _placed(device: torch.device, map_location: Any) -> torch.device:
    """Return where a storage that was on `device` is placed. A function of the program counts as one that leaves it on the CPU."""
    if map_location is None:
        return device
    if isinstance(map_location, dict):
        return torch.device(map_location.get(str(device), device))
    return torch.device("cpu") if callable(map_location) else torch.device(map_location)

"""Parameters that change their device, and storages that change their size, as they do for plain tensors."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copyreg
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry._patches import Patches
from vram.dry._storages import Storages

_SWAP = torch.utils.swap_tensors


def _swap(first: Any, second: Any) -> None:
    """Swap what two tensors are, as torch.utils.swap_tensors() does, although PyTorch's fake tensors have weak references.

    The caller keeps `second`, which has no use any more: it gives its memory up at once, as it does if parameters change in place.
    """
    if first is second:
        return  # a gradient that is where its module moves
    if type(first) is type(second) and copyreg._slotnames(type(first)):  # type: ignore[attr-defined]
        _SWAP(first, second)  # DTensors, which have a fake tensor and are none
        return
    _exchange(first, second)
    _exchange(second, torch.nn.Parameter(torch.empty(0, device="cpu"), requires_grad=False))


def _exchange(first: Any, second: Any) -> None:
    first.__class__, second.__class__ = second.__class__, first.__class__
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__
    torch._C._swap_tensor_impl(first, second)


def put_in_place(patches: Patches, storages: Storages) -> None:
    """Keep parameters the same objects when a module moves or their data does; follow storages that are resized in Python."""
    apply = torch.nn.Module._apply

    def move(module: Any, function: Any, recurse: bool = True) -> Any:
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(module, function, recurse)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    data: Any = torch._C.TensorBase.data

    def set_data(tensor: Any, value: Any) -> None:
        if not isinstance(value, FakeTensor) or (
            isinstance(tensor, FakeTensor) and tensor.fake_device == value.fake_device
        ):
            data.__set__(tensor, value)
            return
        made = value.detach()
        is_parameter = isinstance(tensor, torch.nn.Parameter)
        _swap(tensor, torch.nn.Parameter(made, tensor.requires_grad) if is_parameter else made)

    resize = torch.UntypedStorage.resize_

    def resized(storage: Any, size: Any) -> Any:
        result = resize(storage, size)
        storages.update(storage)
        return result

    deep_copied = torch.Tensor.__deepcopy__

    def copied(tensor: Any, memo: dict[int, Any]) -> Any:
        # A fake parameter is an instance of FakeTensor, so it would be copied as a tensor that is no parameter.
        if not (isinstance(tensor, FakeTensor) and isinstance(tensor, torch.nn.Parameter)) or id(tensor) in memo:
            return deep_copied(tensor, memo)
        made = tensor.data.clone(memory_format=torch.preserve_format)
        memo[id(tensor)] = torch.nn.Parameter(made, tensor.requires_grad)
        return memo[id(tensor)]

    patches.put(torch.Tensor, "__deepcopy__", copied)
    patches.put(torch.utils, "swap_tensors", _swap)
    patches.put(torch.nn.Module, "_apply", move)
    patches.put(torch.Tensor, "data", property(data.__get__, set_data))
    patches.put(torch.UntypedStorage, "resize_", resized)

"""Tensors on the GPU that are made from other data: arrays of NumPy, tensors of the CPU.

PyTorch's C++ code makes meta tensors of arrays in a fake mode, below any dispatch mode, and a dry run would not see them. On a GPU it makes a tensor
on the CPU and copies it, which is what these functions do.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.jit import _builtins
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device

from vram.dry._patches import Patches


def put_in_place(patches: Patches) -> None:
    """Let torch.tensor() and its relatives make tensors that a dry run sees."""
    # PyTorch remembers from the first call on to which functions torch.set_default_device() applies: not to those below.
    _device._device_constructors()
    for name in (
        "tensor",
        "as_tensor",
        "asarray",
        "sparse_coo_tensor",
        "sparse_csr_tensor",
        "sparse_compressed_tensor",
    ):
        _put(patches, name)
    patches.put(torch.Tensor, "new_tensor", _seen(torch.Tensor.new_tensor, is_method=True))


def _put(patches: Patches, name: str) -> None:
    make = getattr(torch, name)
    made = _seen(make)
    # TorchScript compiles a call of a function that it knows by its id; PyTorch compiles functions of its own when it is imported.
    operator = _builtins._find_builtin(make)
    if operator is not None:
        known = _builtins._get_builtin_table()
        known[id(made)] = operator
        patches.on_undo(lambda: known.pop(id(made), None))
    patches.put(torch, name, made)


def _default_device() -> Any:
    """Return the device that ``with torch.device(...)`` states; torch.get_default_device() would make a tensor to find out."""
    modes = reversed(_get_current_function_mode_stack())
    return next((mode.device for mode in modes if isinstance(mode, _device.DeviceContext)), "cpu")


def _seen(make: Any, *, is_method: bool = False) -> Any:
    """Return a function that makes the same tensor."""

    def made(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if isinstance(device, int):
            device = kwargs["device"] = torch.device("cuda", device)
        found = make(*args, **kwargs)
        if found.device.type != "meta" or isinstance(found, FakeTensor):
            return found
        if device is None:
            device = args[0].device if is_method else _default_device()
        device = torch.device(device)
        if device.type == "meta":
            return found
        needs_gradient = kwargs.pop("requires_grad", False)
        on_cpu = make(*args, **{**kwargs, "device": "cpu"})
        return on_cpu.to(device).requires_grad_(needs_gradient)

    # Without __wrapped__: PyTorch's compiler, which the first DistributedDataParallel imports, looks for the file of that function, and it has none.
    made.__name__, made.__doc__ = make.__name__, make.__doc__
    return made

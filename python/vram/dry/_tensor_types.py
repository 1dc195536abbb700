"""torch.cuda.FloatTensor and its relatives, by which older programs make and convert tensors: PyTorch's own need a GPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch

from vram.dry._patches import Patches

_NAMES = {
    "BFloat16Tensor": torch.bfloat16,
    "BoolTensor": torch.bool,
    "ByteTensor": torch.uint8,
    "CharTensor": torch.int8,
    "DoubleTensor": torch.float64,
    "FloatTensor": torch.float32,
    "HalfTensor": torch.float16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
}
_CUDA = "torch.cuda."


class _TensorType(type):
    """The class of each type: called, it makes a tensor."""

    dtype: torch.dtype

    def __call__(cls, *args: Any) -> Any:
        if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
            return torch.as_tensor(args[0], dtype=cls.dtype, device="cuda")
        return torch.empty(*args, dtype=cls.dtype, device="cuda") if args else cls(0)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype


def put_in_place(patches: Patches) -> None:
    types = {name: _TensorType(name, (), {"dtype": dtype, "is_cuda": True}) for name, dtype in _NAMES.items()}
    names = {dtype: name for name, dtype in _NAMES.items()}
    patches.put_where_found(torch.cuda, types)
    convert, set_default = torch.Tensor.type, torch.set_default_tensor_type

    def found(name: Any) -> Any:
        """Return the type of this name on the GPU; itself, if it is another."""
        return types.get(name.removeprefix(_CUDA), name) if isinstance(name, str) and name.startswith(_CUDA) else name

    def converted(tensor: Any, dtype: Any = None, non_blocking: bool = False, **named: Any) -> Any:
        if dtype is None and tensor.is_cuda:
            return _CUDA + names[tensor.dtype]
        kind = found(dtype)
        if isinstance(kind, _TensorType):
            return tensor.to("cuda", kind.dtype)
        return convert(tensor, dtype, non_blocking, **named) if dtype is not None else convert(tensor)

    def set_default_type(kind: Any) -> None:
        kind = found(kind)
        is_on_gpu = isinstance(kind, _TensorType)
        torch.set_default_device("cuda" if is_on_gpu else None)
        if is_on_gpu:
            torch.set_default_dtype(kind.dtype)
        else:
            set_default(kind)

    patches.put(torch.Tensor, "type", converted)
    patches.put(torch, "set_default_tensor_type", set_default_type)

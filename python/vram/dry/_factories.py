"""Functions that make tensors on the GPU: of arrays of NumPy and of tensors of the CPU; and on devices that are stated by their numbers.

PyTorch's C++ code makes meta tensors of arrays in a fake mode, below any dispatch mode, and a dry run would not see them. On a GPU it makes a tensor
on the CPU and copies it, which is what these functions do. A tensor that is fake already is copied as by its methods.

A number is a device of the accelerator, of which PyTorch's C++ code finds none in a build for the CPU.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.jit import _builtins
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _device

from vram.dry._patches import Patches
from vram.dry._readers import ISTFT
from vram.dry._values import Unknown

_OF_DATA = ("tensor", "as_tensor", "asarray", "sparse_coo_tensor", "sparse_csr_tensor", "sparse_compressed_tensor")


def put_in_place(patches: Patches) -> None:
    """Let torch.tensor() and its relatives make tensors that a dry run sees."""
    # PyTorch remembers from the first call on to which functions torch.set_default_device() applies: not to those below.
    _device._device_constructors()
    for name in _OF_DATA:
        _put(patches, name, _seen)
    _put(patches, ISTFT, _istft)
    patches.put(torch.functional, ISTFT, torch.istft)
    patches.put(torch.Tensor, "new_tensor", _seen(torch.Tensor.new_tensor, is_method=True))
    if torch.version.cuda is None:
        _name_devices(patches)


class _DeviceType(type):
    """The class of torch.device, which stands for the one of PyTorch: C++ code knows only that."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.real("cuda", *args) if args and _is_number(args[0]) else cls.real(*args, **kwargs)  # type: ignore[attr-defined]

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.real)  # type: ignore[attr-defined]

    def __subclasscheck__(cls, other: type) -> bool:
        return other is cls or issubclass(other, cls.real)  # type: ignore[attr-defined]

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.real  # type: ignore[attr-defined]

    def __hash__(cls) -> int:
        return hash(cls.real)  # type: ignore[attr-defined]


def _is_number(device: Any) -> bool:
    return isinstance(device, int) and not isinstance(device, bool)


def _name_devices(patches: Patches) -> None:
    """Let numbers of devices name GPUs."""
    methods = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")
    likes = ("empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like")
    constructors = {each.__name__ for each in _device._device_constructors()}
    for name in sorted(constructors.difference(_OF_DATA).union(likes)):
        if isinstance(getattr(torch, name, None), BuiltinFunctionType):
            _put(patches, name, _named)
    for name in methods:
        patches.put(torch.Tensor, name, _named(getattr(torch.Tensor, name)))
    parse = torch._C._nn._parse_to  # of Module.to()
    patches.put(torch._C._nn, "_parse_to", _named(lambda *args, **kwargs: parse(*map(_device_of, args), **kwargs)))
    names = {"real": torch.device, "__module__": "torch", "__qualname__": "device", "__doc__": torch.device.__doc__}
    patches.put(torch, "device", _DeviceType("device", (), names))


def _device_of(value: Any) -> Any:
    return torch.device("cuda", value) if _is_number(value) else value


def _named(make: Any) -> Any:
    def made(*args: Any, **kwargs: Any) -> Any:
        if _is_number(kwargs.get("device")):
            kwargs["device"] = _device_of(kwargs["device"])
        return make(*args, **kwargs)

    made.__name__, made.__doc__ = make.__name__, make.__doc__
    return made


def _put(patches: Patches, name: str, wrapped: Callable[[Any], Any]) -> None:
    make = getattr(torch, name)
    made = wrapped(make)
    # TorchScript compiles a call of a function that it knows by its id; PyTorch compiles functions of its own when it is imported.
    operator = _builtins._find_builtin(make)
    if operator is not None:
        known = _builtins._get_builtin_table()
        known[id(made)] = operator
        patches.on_undo(lambda: known.pop(id(made), None))
    patches.put(torch, name, made)


def _istft(calculate: Any) -> Any:
    """Return torch.istft() as a function of Python, by which its questions are known (_readers.py)."""

    def istft(*args: Any, **kwargs: Any) -> Any:
        return calculate(*args, **kwargs)

    istft.__doc__ = calculate.__doc__
    return istft


def _default_device(otherwise: Any = "cpu") -> Any:
    """Return the device that ``with torch.device(...)`` states; torch.get_default_device() would make a tensor to find out."""
    modes = reversed(_get_current_function_mode_stack())
    return next((mode.device for mode in modes if isinstance(mode, _device.DeviceContext)), otherwise)


def _data_of(args: Any, kwargs: Any) -> Any:
    """Return what a tensor is made of; of sparse ones, it is no tensor that could be returned."""
    return args[0] if len(args) == 1 else kwargs.get("data", kwargs.get("obj"))


def _unknown_numbers(data: Any) -> Iterator[Unknown]:
    if isinstance(data, Unknown):
        yield data
    elif isinstance(data, (list, tuple)):
        for each in data:
            yield from _unknown_numbers(each)


def _of_fake(
    name: str, data: Any, *, device: Any, dtype: Any = None, copy: bool | None = None, requires_grad: bool | None = None, **_others: Any
) -> Any:  # fmt: skip
    """Return what the function of this name makes of a fake tensor."""
    is_copy = name in ("tensor", "new_tensor") or bool(copy)
    source = data.detach() if name in ("tensor", "new_tensor") or requires_grad is False else data
    made = source.to(data.device if device is None else device, data.dtype if dtype is None else dtype, copy=is_copy)
    return made.requires_grad_() if requires_grad else made


def _seen(make: Any, *, is_method: bool = False) -> Any:
    """Return a function that makes the same tensor."""

    def made(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if _is_number(device):
            device = kwargs["device"] = _device_of(device)
        data = _data_of(args[1:] if is_method else args, kwargs)
        for unknown in _unknown_numbers(data):
            float(unknown)  # warns: the tensor has values
        if isinstance(data, FakeTensor):
            if is_method:
                kwargs.setdefault("dtype", args[0].dtype)
            stated = {name: value for name, value in kwargs.items() if value is not data}
            return _of_fake(make.__name__, data, **{"device": None if is_method else _default_device(None), **stated})
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

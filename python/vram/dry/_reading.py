"""The methods that read a tensor's values, for fake tensors: what they answer is decided by Values."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.utils.dlpack
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from vram._texts import tr
from vram.dry import _bounds, _known
from vram.dry._lines import users_line
from vram.dry._mode import DryMode
from vram.dry._patches import Patches
from vram.dry._values import DryRunError

_NOWHERE = 1 << 60
_TRITON = f"{os.sep}triton{os.sep}"


def _address(mode: DryMode, tensor: Any, reader: str) -> int:
    """Return an address that tells storages apart, as programs use it to find shared weights. There is no memory behind it."""
    if _TRITON in reader:
        raise DryRunError(
            tr(
                "{}: data_ptr() gives a Triton kernel the address of a tensor on the GPU, which has no "
                "memory in a dry run; make the kernel an operator with torch.library.triton_op and "
                "torch.library.register_fake, or leave it out of the dry run"
            ).format(users_line())
        )
    storage = tensor.untyped_storage()
    if not tensor.numel() or not storage.nbytes():
        return 0
    return _storage_address(mode, storage) + int(tensor.storage_offset()) * int(tensor.dtype.itemsize)


def _storage_address(mode: DryMode, storage: Any) -> int:
    place = mode.storages.place(storage)
    # On the CPU, by the object of the storage, where nothing can be: native code that writes there ends, and overwrites nothing.
    return storage._cdata | _NOWHERE if place is None else place[1]


def _reader_of_all(mode: DryMode, name: str) -> Any:
    """Return the method of this name, which answers with all values of a tensor."""
    operator = "numpy()" if name == "__array__" else f"{name}()"

    def filled(tensor: Any) -> Any:
        is_one_number = tensor.numel() == 1 and tensor.is_floating_point()
        number = (
            _number(mode, tensor, operator)
            if is_one_number
            else mode.values.fill(operator, _largest_choice(tensor), may_be_size=_may_be_size(tensor, name), of=tensor)
        )
        with _disable_current_modes():
            known = torch.zeros(
                tuple(tensor.shape), dtype=tensor.dtype, device="cpu"
            )  # takes no memory until something is written
            return known.fill_(number) if number else known

    def read(tensor: Any, *arguments: Any, **named: Any) -> Any:
        known = None if mode.values.has_assumption else _known.value_of(tensor)
        if known is None and name == "__dlpack__":
            raise mode.values.all("__dlpack__()", of=tensor)
        if known is None and name == "tolist" and tensor.numel() == 1:
            one = mode.read_item(tensor, "tolist()")
            for _ in range(tensor.dim()):
                one = [one]
            return one
        known = filled(tensor) if known is None else known
        with _disable_current_modes():
            return getattr(known, name)(*arguments, **named)

    return read


def _may_be_size(tensor: Any, name: str) -> bool:
    """Whether values that are read as a whole may be sizes; images of bytes become arrays."""
    return not (tensor.is_floating_point() or (tensor.dtype == torch.uint8 and name != "tolist"))


def _largest_choice(tensor: Any) -> int | None:
    """Return the largest possible value of whole numbers of which any is as good as another; None: not known, or counts."""
    found = None if tensor.dtype == torch.bool else _bounds.largest_of(tensor)
    return None if found is None or not found.is_choice else found.number


def _number(mode: DryMode, tensor: Any, operator: str) -> float:
    """Return a tensor of one element as a number that forgets that it is not known."""
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    return float(mode.read_item(tensor, operator, is_number=tensor.dtype == torch.bool))


def put_in_place(patches: Patches, mode: DryMode) -> None:
    """Give fake tensors the methods."""

    def item(tensor: Any, *, is_number: bool = False) -> Any:
        if tensor.numel() != 1:
            raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
        return mode.read_item(tensor, "item()", is_number=is_number)

    def text(tensor: Any, spec: str = "") -> str:
        if tensor.dim() == 0 and spec:
            return format(item(tensor), spec)
        return object.__format__(tensor, "")

    for name, method in {
        "data_ptr": lambda tensor: _address(mode, tensor, sys._getframe(1).f_code.co_filename),
        "item": lambda tensor: item(tensor, is_number=True),
        "__float__": lambda tensor: _number(mode, tensor, "item()"),
        "__int__": lambda tensor: int(item(tensor, is_number=tensor.dtype == torch.bool)),
        "__bool__": lambda tensor: bool(item(tensor)),
        "__index__": lambda tensor: int(item(tensor)),
        "__format__": text,
        "tolist": _reader_of_all(mode, "tolist"),
        "numpy": _reader_of_all(mode, "numpy"),
        "__array__": _reader_of_all(mode, "__array__"),
        "__dlpack__": _reader_of_all(mode, "__dlpack__"),
        # A tensor of another class would not be a fake one.
        "as_subclass": lambda tensor, _class: tensor,
    }.items():
        patches.put(FakeTensor, name, method)
    storage_address = torch.UntypedStorage.data_ptr
    patches.put(
        torch.UntypedStorage,
        "data_ptr",
        lambda storage: (
            _storage_address(mode, storage)
            if storage.device.type == "meta" and storage.nbytes()
            else storage_address(storage)
        ),
    )
    patches.put(torch.utils.dlpack, "to_dlpack", lambda tensor: tensor.__dlpack__())

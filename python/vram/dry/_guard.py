"""What PyTorch asks of a machine before it works on a GPU, for machines without one: device guards and autograd's streams."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_tensor

from vram._error import VramError
from vram._library import library
from vram._texts import tr
from vram.dry import _accelerator
from vram.dry._patches import Patches
from vram.dry._tensors import leaves

_CUDA, _META = 1, 14  # c10::DeviceType
_TORCH = Path(torch.__file__).parent
_WORD = ctypes.sizeof(ctypes.c_void_p)
_MAX_FUNCTIONS = 128  # at least as many as each of the classes below has
_guard_of_meta = ctypes.c_void_p()  # as long as the process: see put_in_place()


def put_in_place(patches: Patches, has_wrappers: Callable[[], bool]) -> None:
    """Let PyTorch work on fake tensors of GPUs where it sees none; where it sees one, change nothing.

    A build for the CPU has no guard for GPUs, and gets the one of meta tensors, which does nothing, until the process ends: tensors
    of a dry run may live as long. A build for CUDA has a substitute for the guard, whose streams have no device; and its autograd
    looks for the context of a GPU in each backward pass. There, the functions that autograd calls are replaced.

    Raise VramError: the header files that come with PyTorch, which say where these functions are, are missing or different.
    """
    if torch.version.cuda is not None and not lacks_gpu():
        return
    torch._C._ensureCUDADeviceGuardSet()
    guards = (ctypes.c_void_p * (_META + 1)).in_dll(_c10(), "_ZN3c104impl26device_guard_impl_registryE")
    if not guards[_CUDA]:
        # An object without data, with the functions of the one of meta tensors.
        _guard_of_meta.value = ctypes.c_void_p.from_address(guards[_META] or 0).value
        guards[_CUDA] = ctypes.addressof(_guard_of_meta)
    if torch.version.cuda is None:
        _let_wrappers_find_an_accelerator(patches, guards[_CUDA] or 0, has_wrappers)
        return
    patches.put_where_found(fake_tensor, {"init_gpu_context": lambda _device: None})  # it allocates a real tensor
    try:
        guard = _guard(guards[_CUDA] or 0, _streams())
        hooks = _hooks({"hasPrimaryContext": _no_context()})
    except (OSError, AttributeError, ValueError) as error:  # no header, no such function in a library, or in a header
        raise VramError(
            tr(
                "PyTorch {} is a build for CUDA and sees no GPU, and vram does not know how to keep its autograd from asking for one ({}); use a build for the CPU for dry runs on this machine"
            ).format(torch.__version__, error)
        ) from error
    for functions in (guard, hooks):
        functions.replace()
        patches.on_undo(functions.restore)


def lacks_gpu() -> bool:
    """Return whether PyTorch is a build for CUDA that has no GPU here, also while a dry run lets it seem to have one."""
    return torch.version.cuda is not None and torch._C._cuda_getDeviceCount() == 0


class _Functions:
    """Virtual functions of a C++ object of PyTorch, replaced by others until restore().

    Such an object begins with the address of a table of functions, in the order in which the header declares them; the word before
    the table describes the class. The object gets a copy with other entries.
    """

    def __init__(self, address: int, header: str, others: Mapping[str, Any]) -> None:
        """Raise OSError or ValueError: the header is missing, or does not declare one of the functions."""
        slots = slots_of((_TORCH / "include" / header).read_text(encoding="utf-8"))
        self._object = ctypes.c_void_p.from_address(address)
        self._before = self._object.value or 0
        table = ctypes.c_void_p * (2 + _MAX_FUNCTIONS)
        self._table = table.from_buffer_copy(table.from_address(self._before - 2 * _WORD))
        for name, function in others.items():
            self._table[2 + slots.index(name)] = ctypes.cast(function, ctypes.c_void_p)
        self._others = others  # kept as long as the table that refers to them

    def replace(self) -> None:
        self._object.value = ctypes.addressof(self._table) + 2 * _WORD

    def restore(self) -> None:
        self._object.value = self._before


def slots_of(header: str) -> list[str]:
    """Return the virtual functions that a class declares, in the order of its table, where a destructor has two entries."""
    names = re.findall(r"^\s*virtual\s+(?:[\w:<>]+[*&\s]+)?(~?\w+)\(", header, re.MULTILINE)
    return [slot for name in names for slot in ((name, name) if name.startswith("~") else (name,))]


def _c10() -> ctypes.CDLL:
    return ctypes.CDLL(str(_TORCH / "lib" / "libc10.so"))


def _hooks(others: Mapping[str, Any]) -> _Functions:
    """Return other functions for at::CUDAHooks, which are those of PyTorch's CUDA part that its other parts call."""
    get = ctypes.CDLL(str(_TORCH / "lib" / "libtorch_cpu.so"))._ZN2at6detail12getCUDAHooksEv
    get.restype = ctypes.c_void_p
    return _Functions(int(get()), "ATen/detail/AcceleratorHooksInterface.h", others)


def _guard(address: int, others: Mapping[str, Any]) -> _Functions:
    return _Functions(address, "c10/core/impl/DeviceGuardImplInterface.h", others)


def _streams() -> dict[str, Any]:
    ours = library()
    streams = {"getStream": ours.vram_torch_default_stream, "getDefaultStream": ours.vram_torch_default_stream}
    return {**streams, "exchangeStream": ours.vram_torch_same_stream}


def _no_context() -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_byte)(_accelerator.has_context)


def _let_wrappers_find_an_accelerator(patches: Patches, guard: int, has_wrappers: Callable[[], bool]) -> None:
    """Let autograd's engine find one where tensors say themselves that they are on the GPU, because DryMode cannot answer for them.

    These are the tensors of torch.func and of batches of gradients, nested ones and DTensors. In a version of PyTorch that is different, their gradients stay an error.
    """
    is_built = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(_accelerator.is_built)
    nothing = ctypes.CFUNCTYPE(None)(_accelerator.nothing)
    try:
        hooks = _hooks({"isBuilt": is_built, "hasPrimaryContext": _no_context()})
        streams = _guard(guard, {**_streams(), "record": nothing, "block": nothing})
    except (OSError, AttributeError, ValueError):
        return
    for functions in (hooks, streams):
        functions.replace()
        patches.on_undo(functions.restore)
    run = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def noted(*args: Any, **kwargs: Any) -> Any:
        engine = _accelerator.engine
        before = engine.finds_accelerator
        engine.finds_accelerator = (
            has_wrappers() or torch._C._functorch.peek_interpreter_stack() is not None or _are_batched(*args[1:2])
        )
        try:
            return run(*args, **kwargs)
        finally:
            engine.finds_accelerator = before

    patches.put(torch.autograd, "_engine_run_backward", noted)


def _are_batched(gradients: Any = ()) -> bool:
    """Whether autograd is given gradients that stand for several each, as by torch.autograd.grad(..., is_grads_batched=True)."""
    return any(map(torch._C._functorch.is_legacy_batchedtensor, leaves(gradients)))

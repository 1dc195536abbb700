"""PyTorch's mode of fake tensors, as a dry run uses it."""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
import threading
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nested._internal.nested_int import NestedIntNode

from vram._texts import tr
from vram.dry._lines import users_line
from vram.dry._values import DryRunError

# What PyTorch raises for tensors of several devices; older versions have no class of it.
_OTHER_DEVICE: type[Exception] = getattr(fake_tensor, "FakeTensorDeviceMismatchError", RuntimeError)
FAKE = torch._C._TorchDispatchModeKey.FAKE
_FIRST_RAGGED = 1 << 40  # the numbers of ragged sizes of nested tensors: real ones count from 0


class _OfThread:
    """An attribute of a mode that each thread has for itself."""

    def __init__(self, first: Any) -> None:
        self._first = first  # makes the value of a thread that has none

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, mode: Any, owner: type | None = None) -> Any:
        here = mode.here.__dict__
        if self._name not in here:
            here[self._name] = self._first()
        return here[self._name]

    def __set__(self, mode: Any, value: Any) -> None:
        mode.here.__dict__[self._name] = value


class Fakes(FakeTensorMode):
    """PyTorch's fake tensors, which must not touch a GPU even if the program believes that there is one, and which several threads use."""

    in_kernel_invocation = _OfThread(bool)
    enter_stack = _OfThread(list)

    def __init__(self, **options: Any) -> None:
        self.here = threading.local()
        self._ragged = itertools.count(_FIRST_RAGGED)
        self.has_ended = False
        super().__init__(**options)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.has_ended and FakeTensor not in types:
            return func(*args, **(kwargs or {}))
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except _OTHER_DEVICE:
            if not self.has_ended:
                raise
            raise DryRunError(
                tr(
                    "{}: a tensor from a dry run has no values, and cannot be used with others after it; make the model and its data again"
                ).format(users_line())
            ) from None

    def __exit__(self, *error: Any) -> None:
        if self.has_ended and torch._C._get_dispatch_mode(FAKE) is None:
            torch._C._set_dispatch_mode(self)  # which is missing; see DryMode.end()
        super().__exit__(*error)

    @property
    def avoid_device_init(self) -> bool:
        return True

    def create_symbolic_nested_int(self, *, nt_tensor_id: int | None = None) -> Any:
        """Return the ragged size of a nested tensor as real ones have it: PyTorch's own is for compilers."""
        return torch.SymInt(NestedIntNode(next(self._ragged) if nt_tensor_id is None else nt_tensor_id, 1))

    def __reduce__(self) -> Any:
        """Refuse pickle, which comes here by a tensor."""
        raise DryRunError(
            tr(
                "{}: pickle reads the values of a tensor, which a dry run does not compute; use torch.save(), which a dry run leaves out, or leave the line "
                "out of the dry run"
            ).format(users_line())
        )

    def __deepcopy__(self, memo: Any) -> Fakes:
        return self  # a copy of a tensor belongs to the same dry run

"""Injects out-of-memory errors at chosen operators, in forward and backward, of real PyTorch on the CPU."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Injector(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it the n-th operator fails, for each n in turn (counted from the failure before). Sees every result."""

    def __init__(self, failures: Iterable[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failures = list(failures)
        self.raised = 0
        self.operators = 0
        self.seen: list[weakref.ref[torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators += 1
        if self.failures and self.operators >= self.failures[0]:
            self.failures.pop(0)
            self.operators = 0
            self.raised += 1
            self._fail(func, args)
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.seen.append(weakref.ref(result))
        return result

    def _fail(self, func: Any, args: Any) -> None:
        held = [torch.empty(1000), args]  # by this frame, which the error's traceback holds
        if self.raised % 2:
            raise torch.OutOfMemoryError(f"CUDA out of memory (injected at {func}, {len(held)} held)")
        try:
            raise torch.OutOfMemoryError(f"CUDA out of memory (injected at {func})")
        except torch.OutOfMemoryError as error:
            again = torch.OutOfMemoryError("CUDA out of memory (injected, while another was handled)")
            again.cycle = (again, error, held)  # type: ignore[attr-defined]
            raise again from error

    def alive(self) -> int:
        return sum(1 for reference in self.seen if reference() is not None)


def relative_difference(one: torch.Tensor | None, other: torch.Tensor | None) -> float:
    assert one is not None
    assert other is not None
    return float((one.double() - other.double()).norm() / other.double().norm().clamp_min(1e-30))

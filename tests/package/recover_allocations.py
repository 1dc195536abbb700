"""Injects out-of-memory errors at chosen allocations of real PyTorch on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Allocations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it memory runs out at the n-th operator that allocates, for each n in turn (counted from the one before)."""

    error: type[BaseException] = torch.OutOfMemoryError

    def __init__(self, *failures: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = 0
        self.failures = list(failures)
        self.raised = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._allocates(result, [*args, *(kwargs or {}).values()]):
            self.count += 1
            if self.failures and self.count == self.failures[0]:
                self.failures.pop(0)
                self.count = 0
                self.raised += 1
                raise self.error(f"CUDA out of memory (injected at {func})")
        return result

    @staticmethod
    def _allocates(result: Any, given: list[Any]) -> bool:
        results = result if isinstance(result, (tuple, list)) else [result]
        tensors = [item for item in results if isinstance(item, torch.Tensor)]
        old = {_storage(item) for item in given if isinstance(item, torch.Tensor)}
        return any(_storage(item) not in old for item in tensors)


def _storage(tensor: torch.Tensor) -> int:
    return id(tensor) if tensor.is_sparse else tensor.untyped_storage()._cdata

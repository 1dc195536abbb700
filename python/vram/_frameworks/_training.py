"""What recovery needs of a framework beyond what looking at memory takes: random numbers, steps of optimizers, joining.

PyTorch alone answers so far: the gradients of the others live in functions, where nothing is left over from a failure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from vram._error import VramError
from vram._frameworks import Counters


class Training(Counters, Protocol):
    """See Counters."""

    def rng_state(self) -> Any:
        """Of the CPU's generator and of each GPU's. Waits for nothing."""

    def restore_rng(self, state: Any) -> None:
        """All generators go on as they would have from rng_state()."""

    def optimizer_steps(self, begins: Callable[[], None], ends: Callable[[], None]) -> AbstractContextManager[None]:
        """Within it, both are called around each step of each optimizer, whatever thread it is in."""

    def backward_passes(self, begins: Callable[[], None]) -> AbstractContextManager[None]:
        """Within it, called before each backward pass. One thread at a time."""

    def out_of_memory(self, text: str) -> BaseException:
        """The framework's own error of that kind, so that handlers that wait for it get it."""

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Tensors, joined along dimension 0."""

    def free_bytes(self, device: int) -> int:
        """What nobody holds of the device, as far as this process may have it."""

    def alloc_retries(self, device: int) -> int:
        """How often the allocator had to give its cache back before it could serve a request."""


def training_framework() -> Training:
    """PyTorch, if the program has imported it. VramError: it has not."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise VramError("recovery works with PyTorch, which this program has not imported; import torch first")
    from vram._frameworks._torch_training import TorchTraining

    return TorchTraining(torch)

"""What recovery needs of a framework beyond what looking at memory takes: random numbers, steps of optimizers, joining.

PyTorch alone answers so far: the gradients of the others live in functions, where nothing is left over from a failure.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, Protocol

from vram._error import VramError
from vram._frameworks import Counters
from vram._texts import tr


class Precision(IntEnum):
    """In which a loss is computed; a larger one is coarser."""

    DOUBLE = 0
    SINGLE = 1
    TF32 = 2  # 32 bits, products with 10 bits of mantissa
    COARSE = 3  # 16 bits


class Training(Counters, Protocol):
    """See Counters."""

    def rng_state(self) -> Any:
        """Of the CPU's generator and of each GPU's. Waits for nothing."""

    def restore_rng(self, state: Any) -> None:
        """All generators go on as they would have from rng_state()."""

    def optimizer_steps(self, begins: Callable[[], None], ends: Callable[[], None]) -> AbstractContextManager[None]:
        """Within it, both are called around each step of each optimizer, whatever thread it is in."""

    def backward_passes(self, begins: Callable[[], None]) -> AbstractContextManager[None]:
        """Within it, called before each backward pass of this thread; not before passes within a pass."""

    def silent(self, why: str) -> AbstractContextManager[Any]:
        """Within it a collective of the framework raises VramError, which says why, before anything is sent."""

    def out_of_memory(self, text: str) -> BaseException:
        """The framework's own error of that kind, so that handlers that wait for it get it."""

    def concatenate(self, parts: Sequence[Any]) -> Any:
        """Tensors, joined along dimension 0."""

    def free_bytes(self, device: int) -> int:
        """Return the free memory of the device that this process may use."""

    def alloc_retries(self, device: int) -> int:
        """How often the allocator had to give its cache back before it could serve a request."""


class Differentiating(Training, Protocol):
    """And as one whose gradients are left in tensors: what micro_batches needs."""

    def same_rng(self, one: Any, other: Any) -> bool:
        """Whether nothing was drawn between these two of rng_state()."""

    def is_close(self, one: Any, other: Any, exact: bool) -> bool:
        """Whether two tensors, arrays or numbers are the same, but for rounding if not exact; without a fraction, exactly."""

    def accumulations(self, begins: Callable[[Any], None]) -> AbstractContextManager[None]:
        """Within it, called before each backward pass of this thread, inner ones too, with each tensor to whose .grad the pass adds."""

    def tensor_hooks(self, registers: Callable[[Any], None]) -> AbstractContextManager[None]:
        """Within it, called with each hook that this thread registers on a tensor, before it is registered."""

    def zeroings(self, begins: Callable[[list[Any]], None]) -> AbstractContextManager[None]:
        """Within it, called before this thread zeroes gradients, with the tensors whose they are."""

    def rehearsal(self, allowed: Sequence[Any]) -> Any:
        """Runs to be compared, of what may change the allowed tensors alone: each within `with rehearsal.run(draw) as mode`.

        Random operators give constants there; `mode.scale(loss)` is the size of the loss's terms. Draws: rehearsal.extremes.
        """

    def divisors(self, loss: Any) -> list[Any]:
        """What the loss was divided by after it was reduced (counts, sums of masks), each of them float() of it."""

    def no_grad(self) -> AbstractContextManager[Any]:
        """Within it no graph is made."""

    def precision(self, loss: Any) -> Precision:
        """The coarsest that it was computed in, as far as its graph shows."""


def training_framework() -> Differentiating:
    """PyTorch, if the program has imported it. VramError: it has not."""
    torch = sys.modules.get("torch")
    if torch is None:
        raise VramError(tr("recovery works with PyTorch, which this program has not imported; import torch first"))
    from vram._frameworks._torch_training import TorchTraining

    return TorchTraining(torch)

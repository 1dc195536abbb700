"""PyTorch, seen as recovery needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vram import torch as under_torch
from vram._frameworks._torch import TorchFramework
from vram._stats import stats


class TorchTraining(TorchFramework):
    """See Training."""

    def rng_state(self) -> Any:
        cuda = self._torch.cuda
        devices = range(cuda.device_count()) if cuda.is_initialized() else ()  # a step may touch another
        return self._torch.get_rng_state(), {device: cuda.get_rng_state(device) for device in devices}

    def restore_rng(self, state: Any) -> None:
        cpu, of_device = state
        self._torch.set_rng_state(cpu)
        for device, device_state in of_device.items():
            self._torch.cuda.set_rng_state(device_state, device)

    @contextmanager
    def optimizer_steps(self, begins: Callable[[], None], ends: Callable[[], None]) -> Iterator[None]:
        optimizer: Any = sys.modules["torch.optim.optimizer"]  # whose hooks are of all optimizers, from PyTorch 2.1
        hooks = [
            optimizer.register_optimizer_step_pre_hook(lambda *_: begins()),
            optimizer.register_optimizer_step_post_hook(lambda *_: ends()),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @contextmanager
    def backward_passes(self, begins: Callable[[], None]) -> Iterator[None]:
        autograd, running = self._torch.autograd, [False]
        backward = autograd.backward  # what Tensor.backward calls; there is no hook before a whole pass

        def noted(*args: Any, **kwargs: Any) -> Any:
            if running[0]:  # a pass within a pass: re-entrant checkpoints
                return backward(*args, **kwargs)
            begins()
            running[0] = True
            try:
                return backward(*args, **kwargs)
            finally:
                running[0] = False

        autograd.backward = noted
        try:
            yield
        finally:
            autograd.backward = backward

    def out_of_memory(self, text: str) -> BaseException:
        error: BaseException = self._torch.cuda.OutOfMemoryError(text)
        return error

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return self._torch.cat(list(parts))

    def free_bytes(self, device: int) -> int:
        free, total = self._torch.cuda.mem_get_info(device)
        allowed = self._allowed_bytes(device, total) - (self.figures(device).reserved_bytes or 0)
        return max(0, min(int(free), allowed))

    def _allowed_bytes(self, device: int, total: int) -> int:
        """By set_per_process_memory_fraction() and by vram.enable(device_limit=...)."""
        fraction = getattr(self._torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)  # from PyTorch 2.8 on
        limit = stats(device).limit_bytes if under_torch.is_enabled() else 0
        return min(int(fraction(device) * total), limit or total)

    def alloc_retries(self, device: int) -> int:
        return int(self._torch.cuda.memory_stats(device).get("num_alloc_retries", 0))

"""PyTorch, seen as recovery needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from vram import torch as under_torch
from vram._frameworks import _torch_graph
from vram._frameworks._torch import TorchFramework
from vram._frameworks._torch_passes import Passes, preceded
from vram._frameworks._training import Precision
from vram._stats import stats

_COARSE = {"torch.float16", "torch.bfloat16"}
_DOUBLE = {"torch.float64", "torch.complex128"}
_passes = Passes()


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

    def same_rng(self, one: Any, other: Any) -> bool:
        """Whether nothing was drawn between these two of rng_state()."""
        (cpu, of_device), (other_cpu, of_other) = one, other
        return bool(self._torch.equal(cpu, other_cpu)) and all(
            device in of_other and self._torch.equal(state, of_other[device]) for device, state in of_device.items()
        )

    def is_close(self, one: Any, other: Any, exact: bool) -> bool:
        """By the norm of the difference: single numbers may be next to nothing."""
        one, other = self._torch.as_tensor(one), self._torch.as_tensor(other)
        if one.shape != other.shape or one.dtype != other.dtype:
            return False
        if not one.dtype.is_floating_point and not one.dtype.is_complex:
            return bool((one == other).all())
        nowhere = one.isnan()
        if not bool((nowhere == other.isnan()).all()):
            return False
        allowed = 0.0 if exact else self._allowed_difference(str(one.dtype))
        one, other = (tensor.detach().masked_fill(nowhere, 0).flatten() for tensor in (one, other))
        same = one == other  # infinities too
        return bool((one - other).masked_fill(same, 0).norm() <= allowed * other.masked_fill(other.isinf(), 0).norm())

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

    def backward_passes(self, begins: Callable[[], None]) -> AbstractContextManager[None]:
        return _passes.heard(self._torch.autograd, lambda _roots: begins(), inner_too=False)

    def accumulations(self, begins: Callable[[Any], None]) -> AbstractContextManager[None]:
        def begin(roots: list[Any]) -> None:
            for leaf in _torch_graph.leaves(roots):
                begins(leaf)

        return _passes.heard(self._torch.autograd, begin, inner_too=True)

    def tensor_hooks(self, registers: Callable[[Any], None]) -> AbstractContextManager[None]:
        return preceded(self._torch.Tensor, "register_hook", lambda _tensor, hook: registers(hook))

    @contextmanager
    def zeroings(self, begins: Callable[[list[Any]], None]) -> Iterator[None]:
        optimizer, module = self._torch.optim.Optimizer, self._torch.nn.Module

        def of_optimizer(this: Any, *_: Any, **__: Any) -> None:
            begins([tensor for group in this.param_groups for tensor in group["params"]])

        def of_module(this: Any, *_: Any, **__: Any) -> None:
            begins(list(this.parameters()))

        with preceded(optimizer, "zero_grad", of_optimizer), preceded(module, "zero_grad", of_module):
            yield

    def rehearsal(self, allowed: Sequence[Any]) -> Any:
        """See Rehearsal."""
        from vram._frameworks._torch_rehearsal import Rehearsal

        return Rehearsal(allowed)

    def silent(self, why: str) -> AbstractContextManager[Any]:
        """Within it a collective raises VramError, which says why, before anything is sent."""
        from vram._frameworks._torch_modes import Silent

        return Silent(why)

    def divisors(self, loss: Any) -> list[Any]:
        """See _torch_graph."""
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():
            return _torch_graph.divisors(loss)

    def no_grad(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self._torch.no_grad()
        return context

    def precision(self, loss: Any) -> Precision:
        """By the graph, autocast around the caller, and what GPUs are allowed."""
        dtypes = _torch_graph.dtypes(loss)
        if self._is_autocast() or dtypes & _COARSE:
            return Precision.COARSE
        return Precision.TF32 if self._is_tf32() else Precision.DOUBLE if dtypes <= _DOUBLE else Precision.SINGLE

    def _is_autocast(self) -> bool:
        try:
            return any(self._torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda"))
        except TypeError:  # PyTorch before 2.4
            return bool(self._torch.is_autocast_enabled() or self._torch.is_autocast_cpu_enabled())

    def _is_tf32(self) -> bool:
        backends = self._torch.backends
        return bool(self.devices()) and (backends.cudnn.allow_tf32 or backends.cuda.matmul.allow_tf32)

    def _allowed_difference(self, dtype: str) -> float:
        if dtype in _DOUBLE:
            return 1e-9
        return 5e-2 if dtype in _COARSE else 5e-3 if self._is_tf32() else 1e-4

    def out_of_memory(self, text: str) -> BaseException:
        error: BaseException = self._torch.cuda.OutOfMemoryError(text)
        return error

    def concatenate(self, parts: Sequence[Any]) -> Any:
        first = parts[0]
        if isinstance(first, self._torch.Tensor):
            return self._torch.cat(list(parts))
        return sys.modules["numpy"].concatenate(list(parts))  # what else has a shape that is no tensor

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

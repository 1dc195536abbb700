"""The ranks of a data-parallel training, kept out of collectives until all of them know that nobody failed.

While micro-batches run, DistributedDataParallel communicates nothing: gradients stay local (no_sync), and what it
would send with the first forward (buffers, the order of its buckets) is sent before. Then the ranks vote, on the CPU over gloo, where no GPU memory
is needed. Only when all of them came through are the gradients averaged, in place, by this module.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from vram._error import VramError

WORKED, OUT_OF_MEMORY, BROKEN = range(3)  # in this order: the worst that any rank says counts
_TALKATIVE = {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
_side_groups: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by DDP module


def _class_names(module: Any) -> set[str]:
    return {base.__name__ for base in type(module).__mro__}


def _parallel_modules(models: list[Any]) -> list[Any]:
    found = []
    for module in (module for model in models for module in model.modules()):
        names = _class_names(module)
        if names & _TALKATIVE or ("SyncBatchNorm" in names and module.training):
            raise VramError(
                f"{type(module).__name__} communicates within forward and backward, so that a rank that runs out of "
                "memory leaves the others waiting; no retry can be agreed on. Find a batch size that fits beforehand "
                "(vram.find_batch_size) and leave it some room"
            )
        if "DistributedDataParallel" in names:
            found.append(module)
            if getattr(module, "_comm_hooks", None):
                raise VramError(
                    "this DistributedDataParallel has a communication hook; vram.micro_batches averages gradients "
                    "itself, after a vote, and would leave the hook out. Remove it"
                )
    return found


class Ranks:
    """Those that train together with this one; alone, all of it does nothing. All ranks make the same calls."""

    def __init__(self, models: list[Any], group: Any) -> None:
        self._modules = _parallel_modules(models)
        # Within the user's own no_sync() an earlier part of an accumulation runs: its end averages.
        self._averages = [module for module in self._modules if module.require_backward_grad_sync]
        self._torch: Any = sys.modules.get("torch")
        self._group = group if group is not None else self._side_group()
        self._trained = [pair for module in self._averages for pair in _reduced(module)]
        self._averaged: list[tuple[Any, Any]] = []

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within it, forward and backward of the modules communicate nothing."""
        self._send_buffers()
        self._rebuild_buckets()
        with ExitStack() as stack:
            for module in self._modules:
                module.require_forward_param_sync = False
                stack.enter_context(module.no_sync())
            yield

    def worst(self, status: int, size: int) -> tuple[int, int]:
        """Of the status and of the micro-batch size: the largest that any rank has. Waits for all of them."""
        if self._group is None:
            return status, size
        worst, largest = self._largest([status, size])
        return worst, largest

    def complete(self, has: Callable[[Any], bool], attempt: Callable[[Callable[[], None]], bool]) -> bool:
        """Gives this rank zeros for gradients that only others have, as `attempt`: it takes memory. Whether all could."""
        mine = [int(has(parameter)) for parameter, _ in self._trained]
        if not mine:
            return True
        largest = self._largest([*mine, *(1 - here for here in mine)])
        somewhere, lacking = largest[: len(mine)], largest[len(mine) :]
        self._averaged = [pair for pair, present in zip(self._trained, somewhere) if present]
        if not any(present and absent for present, absent in zip(somewhere, lacking)):
            return True

        def make() -> None:
            for parameter, _ in self._averaged:
                if not has(parameter):
                    parameter.grad = self._torch.zeros_like(parameter)

        worst, _ = self.worst(WORKED if attempt(make) else OUT_OF_MEMORY, 0)
        return worst == WORKED

    def average(self) -> None:
        """The gradients that any rank has, in place; the order is that of the parameters, on all ranks the same."""
        distributed, waiting = self._torch.distributed, []
        for parameter, group in self._averaged:
            parameter.grad.div_(distributed.get_world_size(group))  # first, so that half precision holds the sum
            waiting.append(distributed.all_reduce(parameter.grad, group=group, async_op=True))
        for work in waiting:
            work.wait()
        for module in self._averages:
            module.require_forward_param_sync = True  # the next forward, ours or not, sends the buffers again

    def _largest(self, values: list[int]) -> list[int]:
        distributed = self._torch.distributed
        tensor = self._torch.tensor(values, dtype=self._torch.int64)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group)
        largest: list[int] = tensor.tolist()
        return largest

    def _side_group(self) -> Any:
        """Of the same ranks, over gloo. To make one is a collective, at the first batch, before anything can fail."""
        if not self._modules:
            return None
        first = self._modules[0]
        if first not in _side_groups:
            distributed = self._torch.distributed
            ranks = distributed.get_process_group_ranks(first.process_group)
            gloo = distributed.get_backend(first.process_group) == "gloo"
            _side_groups[first] = (
                first.process_group
                if gloo
                else distributed.new_group(ranks, backend="gloo", use_local_synchronization=True)
            )
        return _side_groups[first]

    def _send_buffers(self) -> None:
        for module in self._modules:
            distributed = self._torch.distributed
            if module.will_sync_module_buffers():
                group = module.process_group
                for buffer in module.modules_buffers:
                    distributed.broadcast(buffer, distributed.get_global_rank(group, 0), group=group)

    def _rebuild_buckets(self) -> None:
        """Once, after DDP's own first backward, its next forward would agree on buckets with the other ranks: not all of
        them may come to it."""
        for module in self._modules:
            if module.reducer._rebuild_buckets():
                module._has_rebuilt_buckets = True


def _reduced(module: Any) -> list[tuple[Any, Any]]:
    """The parameters whose gradients are averaged, and over which group."""
    ignored = getattr(module, "parameters_to_ignore", ())
    named = module.module.named_parameters()
    return [(p, module.process_group) for name, p in named if p.requires_grad and name not in ignored]

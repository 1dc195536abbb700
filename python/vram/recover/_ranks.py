"""The ranks of a data-parallel training, kept out of collectives until all of them know that none failed.

While micro-batches run, DistributedDataParallel communicates nothing: gradients stay local (no_sync), and what it would
send with the first forward (buffers, the order of its buckets) is sent before. Then the ranks vote. Only when all of them
came through are the gradients averaged, in place, by this module.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from vram._error import VramError
from vram._texts import tr
from vram.recover._gradients import Gradients
from vram.recover._votes import OUT_OF_MEMORY, WORKED, Votes, refuse_unknown_ranks

_COMMUNICATING_MODULES = {"FullyShardedDataParallel", "FSDPModule", "DeepSpeedEngine"}
_DENSE = 1  # see Gradients.layout


def _class_names(module: Any) -> set[str]:
    return {base.__name__ for base in type(module).__mro__}


def _parallel_modules(models: list[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    for module in (module for model in models for module in model.modules()):
        names = _class_names(module)
        if names & _COMMUNICATING_MODULES or ("SyncBatchNorm" in names and module.training):
            raise VramError(
                tr(
                    "{} communicates within forward and backward, so that a rank that runs out of memory "
                    "leaves the others waiting; no retry can be agreed on. Choose a batch size that surely "
                    "fits, and run forward and backward without vram.micro_batches"
                ).format(type(module).__name__)
            )
        if "DistributedDataParallel" in names and not hasattr(module, "require_forward_param_sync"):
            raise VramError(
                tr(
                    "{}.DistributedDataParallel is not PyTorch's, and how it communicates is not known. Use "
                    "torch.nn.parallel.DistributedDataParallel, or run forward and backward without "
                    "vram.micro_batches"
                ).format(type(module).__module__)
            )
        if "DistributedDataParallel" in names:
            found[id(module)] = module
    return list(found.values())


def _refuse_special(module: Any) -> None:
    """What of DDP's work would be left out, or can't be done in parts."""
    if getattr(module, "_comm_hooks", None):
        raise VramError(
            tr(
                "this DistributedDataParallel has a communication hook; vram.micro_batches averages "
                "gradients itself, after a vote, and would leave the hook out. Remove it"
            )
        )
    if getattr(module, "static_graph", False):
        raise VramError(
            tr(
                "this DistributedDataParallel has static_graph=True: it counts the backward passes of "
                "its first batch, and can't run without communication. Make it without static_graph; "
                "find_unused_parameters=True is not needed with vram.micro_batches"
            )
        )
    if getattr(getattr(module, "_join_config", None), "enable", False):
        raise VramError(
            tr(
                "this DistributedDataParallel is within join(), which communicates with each forward. "
                "Let all ranks have as many batches, and leave join() out"
            )
        )


class Ranks:
    """Those that train together with this one; alone, all of it does nothing. All ranks make the same calls."""

    def __init__(self, models: list[Any], group: Any) -> None:
        self._modules = _parallel_modules(models)
        if not self._modules:
            refuse_unknown_ranks(group, tr("vram.micro_batches(), whose model= has no DistributedDataParallel in it,"))
        self._torch: Any = sys.modules.get("torch")
        # Within the user's own no_sync() an earlier part of an accumulation runs: its end averages.
        self._averages = [module for module in self._modules if module.require_backward_grad_sync]
        self._trained = self._reduced()
        self._averaged: list[tuple[Any, Any]] = []
        self.votes = Votes(group or (self._group_of_all() if self._modules else None))

    def _reduced(self) -> list[tuple[Any, Any]]:
        """The parameters whose gradients are averaged, each once, and over which group."""
        found: dict[int, tuple[Any, Any]] = {}
        for module in self._averages:
            ignored = getattr(module, "parameters_to_ignore", ())
            for name, parameter in module.module.named_parameters():
                if parameter.requires_grad and name not in ignored:
                    found.setdefault(id(parameter), (parameter, module.process_group))
        return list(found.values())

    def _group_of_all(self) -> Any:
        """VramError: the modules act over other ranks than one another."""
        distributed = self._torch.distributed
        groups = [module.process_group for module in self._modules]
        if len({tuple(distributed.get_process_group_ranks(group)) for group in groups}) > 1:
            raise VramError(
                tr(
                    "the DistributedDataParallel modules in model= act over different ranks; pass group=, a "
                    "process group of all ranks that call vram.micro_batches together"
                )
            )
        return groups[0]

    def refuse_special(self) -> None:
        """VramError: a module can't be run without communication."""
        for module in self._modules:
            _refuse_special(module)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within it, forward and backward of the modules communicate nothing."""
        self._rebuild_buckets()
        for module in self._modules:
            if module.will_sync_module_buffers():
                module._sync_buffers()
        before = [(module, module.require_forward_param_sync) for module in self._modules]
        with ExitStack() as stack:
            for module in self._modules:
                module.require_forward_param_sync = False
                stack.enter_context(module.no_sync())
            try:
                yield
            finally:  # the next forward, ours or not, sends the buffers again if this one would have
                for module, sync in before:
                    module.require_forward_param_sync = sync

    def complete(self, gradients: Gradients, attempt: Callable[[Callable[[], None]], bool]) -> bool:
        """Gives this rank zeros for gradients that only others have, and the others' layout. Whether all could.

        `attempt` calls what takes memory.
        """
        layouts = [gradients.layout(parameter) for parameter, _ in self._trained]
        if not layouts or self.votes.alone:
            self._averaged = [pair for pair, layout in zip(self._trained, layouts) if layout]
            return True
        count = len(layouts)
        dense = [int(layout == _DENSE) for layout in layouts]
        lacking = [int(layout == 0) for layout in layouts]
        found = self.votes.largest([*layouts, *dense, *lacking])
        self._averaged = [pair for pair, layout in zip(self._trained, found) if layout]
        wanted = [
            _DENSE if some_dense else layout for layout, some_dense in zip(found[:count], found[count : 2 * count])
        ]
        if not any(layout and lacks for layout, lacks in zip(found, found[2 * count :])) and wanted == found[:count]:
            return True

        def make() -> None:
            for (parameter, _), layout, own in zip(self._trained, wanted, layouts):
                if layout != own:
                    gradients.give(parameter, lambda grad, p=parameter, to=layout: self._made(grad, p, to))

        with self.votes.reporting():
            made = attempt(make)
        worst, _ = self.votes.worst(WORKED if made else OUT_OF_MEMORY)
        return worst == WORKED

    def _made(self, gradient: Any, parameter: Any, layout: int) -> Any:
        if gradient is not None:
            return gradient.to_dense()
        if layout == _DENSE:
            return self._torch.zeros_like(parameter)
        sparse = layout - 2
        empty = self._torch.empty((sparse, 0), dtype=self._torch.int64, device=parameter.device)
        values = parameter.new_empty((0, *parameter.shape[sparse:]))
        return self._torch.sparse_coo_tensor(empty, values, parameter.shape)

    def average(self) -> None:
        """The gradients that any rank has, in place; the order is that of the parameters, on all ranks the same."""
        distributed: Any = getattr(self._torch, "distributed", None)
        waiting = []
        for parameter, group in self._averaged:
            parameter.grad.div_(distributed.get_world_size(group))  # first, so that half precision holds the sum
            waiting.append(distributed.all_reduce(parameter.grad, group=group, async_op=True))
        for work in waiting:
            work.wait()
        for module in self._averages:
            module.require_forward_param_sync = True

    def _rebuild_buckets(self) -> None:
        """Rebuild the buckets now.

        After DDP's own first backward, its next forward would agree on buckets with the other ranks, and not all of them
        may come to it.
        """
        for module in self._modules:
            if module.reducer._rebuild_buckets():
                module._has_rebuilt_buckets = True

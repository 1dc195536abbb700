"""Modules whose forward is compiled, each with a budget of its own for torch.compile's partitioner.

The partitioner decides, where forward and backward of a compiled function part, which intermediate results to keep.
``torch._functorch.config.activation_memory_budget`` is its setting: 1 keeps what it finds fastest, 0 keeps the inputs only.
PyTorch has one setting for the whole process; here it is set while one function is compiled.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from types import FunctionType, MethodType
from typing import Any

import torch

from vram._error import VramError
from vram._texts import tr
from vram.planning._calls import restore_forward
from vram.planning._region import CheckpointRegion
from vram.planning._regions import Regions

_NUMBERS = itertools.count()


class _Partitioned:
    """A backend of torch.compile: another one, with this budget. Two of them never share compiled code."""

    def __init__(self, backend: Any, budget: float) -> None:
        self._backend, self._budget = backend, budget
        self.graphs = 0  # compiled so far

    def __call__(self, graph: Any, inputs: Any) -> Any:
        from torch._dynamo import lookup_backend
        from torch._functorch import config

        self.graphs += 1
        with config.patch(activation_memory_budget=self._budget):
            return lookup_backend(self._backend)(graph, inputs)


# After so many, a function counts as full. PyTorch keeps twice as many (torch._dynamo.config.recompile_limit); evaluation needs others than training.
_VARIANTS = 4


class _Shared:
    """The compiled forward of modules of one kind, with one budget.

    PyTorch keeps compiled variants with the code object, and no more than a few for each: what needs another one runs uncompiled, and keeps everything.
    Modules of one kind can need variants of their own, for numbers in their forward, such as the probability of a stochastic depth. So those that
    are called first when a code object is full share the next one.
    """

    def __init__(self, backend: Any, budget: float) -> None:
        self._backend, self._budget = backend, budget
        self._functions: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # by module
        self._begin()

    def _begin(self) -> None:
        self._partitioned = _Partitioned(self._backend, self._budget)
        # A code name that was used before, for another shape, would be compiled for all shapes, which is slower.
        own = FunctionType(_forward.__code__.replace(co_name=f"forward_{next(_NUMBERS)}"), _forward.__globals__)
        self._newest = torch.compile(own, backend=self._partitioned)

    def __call__(self, module: Any, *args: Any, **kwargs: Any) -> Any:
        function = self._functions.get(module)
        if function is None:
            if self._partitioned.graphs >= _VARIANTS:
                self._begin()
            function = self._functions[module] = self._newest
        return function(module, *args, **kwargs)


def _forward(module: Any, *args: Any, **kwargs: Any) -> Any:
    return type(module).forward(module, *args, **kwargs)


def kind_of(module: Any) -> tuple[Any, ...]:
    """Return what modules that share their compiled code have in common."""
    tensors = (*module.named_parameters(), *module.named_buffers())
    return type(module), module.training, tuple((name, tensor.shape, tensor.dtype) for name, tensor in tensors)


class Compiler:
    """Compiles forwards, once for each kind of module and budget.

    Args:
        backend: As in torch.compile(), a name or a function: one that partitions.
    """

    def __init__(self, backend: Any = "inductor") -> None:
        self._backend = backend
        self._made: dict[tuple[Any, ...], _Shared] = {}

    def forward(self, module: Any, budget: float) -> Any:
        """Return the compiled forward of a module. It is compiled when it is first called.

        Raises:
            VramError: The module has a forward of its own, which is not that of its class.
        """
        if "forward" in module.__dict__:
            raise VramError(
                tr(
                    "the forward of a {} is replaced (block.forward = …), by torch.compile or another "
                    "library; compile=True compiles the forward of its class: give it the model before that"
                ).format(type(module).__name__)
            )
        key = (*kind_of(module), budget)
        if key not in self._made:
            self._made[key] = _Shared(self._backend, budget)
        return MethodType(self._made[key], module)


class Applied:
    """What a plan changes in a model, until remove().

    Args:
        model: The model.
        blocks: Its blocks that the plan names.
        compiled: None, "blocks" or "model".
        budgets: Of each block, or of the model, if they are compiled.
        regions: Of blocks.
        compiler: Compiles, or has compiled already.
    """

    def __init__(
        self,
        model: Any,
        blocks: Sequence[Any],
        compiled: str | None,
        budgets: Sequence[float],
        regions: Sequence[CheckpointRegion],
        compiler: Compiler,
    ) -> None:
        modules = {None: [], "blocks": list(blocks), "model": [model]}[compiled]
        self._compiled = [(module, compiler.forward(module, b)) for module, b in zip(modules, budgets)]
        for module, forward in self._compiled:
            module.forward = forward
        self._regions = Regions(model, blocks, regions) if regions or compiled is None else None

    def remove(self) -> None:
        """Let the model run as before. Calling it again has no effect."""
        if self._regions is not None:
            self._regions.remove()
        for module, forward in self._compiled:
            restore_forward(module, forward, None)
        self._regions, self._compiled = None, []

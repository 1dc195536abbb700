"""vram.watch(): names a model's parts for the recorder."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vram import _marks
from vram._error import VramError
from vram.watching import _process
from vram.watching._calls import is_watched, unwatch, watch_calls
from vram.watching._memory import address, leaves, name_tensors
from vram.watching._names import named_modules, named_tensors, root_name
from vram.watching._optimizers import WatchedOptimizer, innermost

if TYPE_CHECKING:
    import torch


class Watch:
    """The result of vram.watch(). It ends by ``stop()``, by the end of its ``with``, or with the model.

    >>> import torch, vram
    >>> model = torch.nn.Linear(2, 2)
    >>> with vram.watch(model) as watch:
    ...     watch.is_open
    True
    >>> watch.is_open
    False
    """

    def __init__(self, model: Any, optimizers: Iterable[Any], name: str, depth: int | None) -> None:
        self.is_active = True
        self._name = name
        self._model = weakref.ref(model)
        self._parameters: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._named_at: tuple[int, int] | None = None  # which recording, and where the first parameter lay
        self._find_parameters()
        self._optimizers = [WatchedOptimizer(innermost(o), self._name_of, self._rename_moved) for o in optimizers]
        self._handles = [] if self._optimizers else self._name_gradients_as_they_come()
        self._modules = [weakref.ref(module) for module in self._watch_modules(model, depth)]
        _process.enter()
        self._leave = weakref.finalize(model, _process.leave)
        self._leave.atexit = False
        if _marks.is_recording():
            self._name_all()

    @property
    def is_open(self) -> bool:
        """Whether stop() was not called and the model is still there."""
        return self._leave.alive

    def stop(self) -> None:
        """Remove all hooks from the model and the optimizers. Recorded names stay.

        May be called twice, and from any thread, while no thread runs the model. Raises nothing.

        >>> import torch, vram
        >>> model = torch.nn.Linear(2, 2)
        >>> watch = vram.watch(model)
        >>> watch.stop()
        >>> watch.is_open
        False
        """
        self.is_active = False
        for reference in self._modules:
            module = reference()
            if module is not None:
                unwatch(module)
        for optimizer in self._optimizers:
            optimizer.stop()
        for handle in self._handles:
            handle.remove()
        _marks.end_trail()
        self._modules, self._optimizers, self._handles = [], [], []
        self._leave()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _watch_modules(self, model: Any, depth: int | None) -> list[Any]:
        watched, names = [], set()
        for name, module in named_modules(model, self._name):
            is_deeper = depth is not None and len(name.split(".")) > depth
            if name not in names and not is_deeper:  # a name again: what a wrapper holds
                names.add(name)
                watch_calls(module, name or root_name(model), self)
                watched.append(module)
        return watched

    def prepare(self, args: Any, kwargs: Any) -> None:
        """Said by the modules; names what has no name yet."""
        if self._named_at != self._now():
            self._name_all()
        if sys.modules["torch"].is_grad_enabled():
            name_tensors((("input", tensor) for tensor in leaves((args, kwargs))), "input")

    def _now(self) -> tuple[int, int]:
        first, _ = next(iter(self._parameters.values()), (None, ""))
        tensor = first() if first is not None else None
        return _marks.recordings(), 0 if tensor is None else address(tensor)

    def _find_parameters(self) -> None:
        model = self._model()
        self._parameters = {
            id(parameter): (weakref.ref(parameter), name)
            for name, parameter in named_tensors(model, self._name, "_parameters")
        }

    def _name_of(self, parameter: Any) -> str | None:
        reference, name = self._parameters.get(id(parameter), (None, None))
        return name if reference is not None and reference() is parameter else None

    def _name_all(self) -> None:
        model = self._model()
        if model is None:
            return
        self._find_parameters()  # FSDP and others put new ones in their place
        name_tensors(named_tensors(model, self._name, "_buffers"), "buffer")
        name_tensors(named_tensors(model, self._name, "_parameters"), "parameter")
        for optimizer in self._optimizers:
            optimizer.name_states()
        self._named_at = self._now()

    def _rename_moved(self) -> None:
        if self._named_at != self._now():
            self._name_all()

    def _name_gradients_as_they_come(self) -> list[Any]:
        def name_gradient(parameter: Any) -> None:
            name = self._name_of(parameter)
            if name is not None and _marks.is_recording():
                name_tensors([(name, parameter.grad)], "gradient")

        found = [reference() for reference, _ in self._parameters.values()]
        return [p.register_post_accumulate_grad_hook(name_gradient) for p in found if p is not None and p.requires_grad]


def watch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    name: str = "",
    depth: int | None = None,
) -> Watch:
    """Name a model's modules, parameters, buffers, gradients and optimizer states for the recorder.

    While a recording runs, the memory that a module allocates belongs to scopes such as
    ``forward/GPT/layers.7/layers.7.mlp``, ``backward/layers.7.mlp`` or ``recompute/layers.7`` (checkpointing), and the
    optimizer's to ``optimizer``; parameters, buffers, gradients and optimizer states get their names. Without a recording, a
    module's call costs a fraction of a microsecond more. docs/watch.md has the figures and the limits.

    Call it while no thread runs the model; afterwards the model may run on any thread. The model is not kept alive, and its
    copies and pickles are not watched.

    Args:
        model: may be wrapped (DistributedDataParallel, torch.compile, FSDP); a wrapper that is added later is not named.
        optimizer: one or several. Without it, gradients are named when they appear, and optimizer states are not named.
        name: a prefix of all names, for programs of several models.
        depth: modules whose names have more parts ("layers.7.mlp" has 3) are no scopes and cost nothing; their memory counts for
            the surrounding module.

    Raises:
        VramError: ``model`` is not a torch.nn.Module, or is watched already.

    >>> import torch, vram
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> with vram.watch(model, optimizer):
    ...     model(torch.ones(2, 4)).sum().backward()
    ...     optimizer.step()
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise VramError(f"watch() needs a torch.nn.Module and got a {type(model).__name__}; pass it the model itself")
    if any(is_watched(module) for module in model.modules()):
        raise VramError(f"a part of this {type(model).__name__} is watched already; stop() that watch first")
    optimizers = [] if optimizer is None else [optimizer] if hasattr(optimizer, "step") else list(optimizer)
    return Watch(model, optimizers, name, depth)

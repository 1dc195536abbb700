"""vram.watch(): names the parts of a model for the recorder."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vram import _marks
from vram._arguments import require_integers
from vram._error import VramError
from vram._texts import tr
from vram.watching import _process
from vram.watching._calls import is_watched, unwatch, watch_calls
from vram.watching._memory import address, leaves, name_tensors
from vram.watching._names import named_modules, named_tensors, root_name
from vram.watching._optimizers import WatchedOptimizer, innermost

if TYPE_CHECKING:
    import torch


class Watch:
    """The result of vram.watch(). ``stop()``, the end of its ``with`` statement, or the end of the model's life ends it.

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
        _process.enter()  # first of all that changes something, as it may fail
        self._optimizers = [WatchedOptimizer(o, self._name_of, self._rename_moved) for o in optimizers]
        self._handles = [] if self._optimizers else self._name_gradients_as_they_come()
        watched = self._watch_modules(model, depth)
        self._modules = [weakref.ref(module) for module in watched.values()]
        self._leave = weakref.finalize(model, _process.leave, [name or root_name(model) for name in watched])
        self._leave.atexit = False
        if _marks.is_recording():
            self._name_all()

    @property
    def is_open(self) -> bool:
        """Whether it is still active: stop() was not called, and the model exists."""
        return self._leave.alive

    def stop(self) -> None:
        """Remove everything from the model and the optimizers again; recorded names remain.

        May be called repeatedly, from any thread, while no thread runs the model. Raises nothing.

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

    def _watch_modules(self, model: Any, depth: int | None) -> dict[str, Any]:
        watched: dict[str, Any] = {}
        for name, module in named_modules(model, self._name):
            is_deeper = depth is not None and len(name.split(".")) > depth
            if name not in watched and not is_deeper:  # a name again: what a wrapper holds
                watch_calls(module, name or root_name(model), self)
                watched[name] = module
        return watched

    def prepare(self, args: Any, kwargs: Any) -> None:
        """Name what has no name yet; called by the modules."""
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

        is_lazy = sys.modules["torch"].nn.parameter.is_lazy  # before its first call; it can have no hook
        found = [reference() for reference, _ in self._parameters.values()]
        trained = [p for p in found if p is not None and p.requires_grad and not is_lazy(p)]
        return [p.register_post_accumulate_grad_hook(name_gradient) for p in trained]


def watch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    name: str = "",
    depth: int | None = None,
) -> Watch:
    """Name a model's modules, parameters, buffers, gradients and optimizer states for the recorder.

    During a recording, memory that a module allocates belongs to scopes such as ``forward/GPT/layers.7/layers.7.mlp``,
    ``backward/layers.7.mlp`` or ``recompute/layers.7`` (checkpointing), that of the optimizer to ``optimizer``.
    Parameters, buffers, gradients and optimizer states have names. Without a recording, a module call takes a fraction
    of a microsecond longer. docs/watch.md describes costs and limits.

    Call it while no thread runs the model; the model may then run on any thread. The watch does not keep the model
    alive, and copies and pickles of the model are not watched.

    Args:
        model: The model; it may be wrapped (DistributedDataParallel, torch.compile, FSDP). Wrappers added later are not
            named.
        optimizer: An optimizer or several. Without it, gradients are named when they are created, and states are not named.
        name: Precedes all names, for programs with several models.
        depth: Modules whose names have more parts ("layers.7.mlp" has 3) are not scopes and cost nothing; their memory
            belongs to the module around them.

    Raises:
        TypeError: `model` is not a torch.nn.Module, or `optimizer` is not an optimizer or several.
        ValueError: `depth` is below 0.
        VramError: A part of the model is watched already.

    >>> import torch, vram
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> with vram.watch(model, optimizer):
    ...     model(torch.ones(2, 4)).sum().backward()
    ...     optimizer.step()
    """
    require_integers(0, depth=depth)
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise TypeError(
            tr("watch() needs a torch.nn.Module and got a {}; pass it the model itself").format(type(model).__name__)
        )
    if any(is_watched(module) for module in model.modules()):
        raise VramError(
            tr("a part of this {} is watched already; stop() that watch first").format(type(model).__name__)
        )
    given: list[Any] = [] if optimizer is None else [optimizer] if hasattr(optimizer, "step") else list(optimizer)
    optimizers = [innermost(one) for one in given]
    for one in optimizers:
        if not hasattr(one, "register_step_pre_hook"):
            raise TypeError(
                tr("watch() needs torch.optim.Optimizers and got a {}; pass the optimizer itself").format(
                    type(one).__name__
                )
            )
    return Watch(model, optimizers, name, depth)

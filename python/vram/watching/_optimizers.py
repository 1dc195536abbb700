"""An optimizer's step: a scope of its own; gradients are named before it, its states and moved parameters after it.

A name counts for a block's whole life, so what is named here was called so when the peak came, too.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable

from vram import _marks
from vram.watching._memory import address, is_tensor, name_gradients, name_tensors
from vram.watching._names import joined
from vram.watching._phases import place

_MAX_STATE_STEPS = 3  # steps: some optimizers make a state at their second


def innermost(optimizer: Any) -> Any:
    """What wrappers (accelerate, Lightning, ZeroRedundancyOptimizer) call in the end."""
    for name in ("optimizer", "optim"):
        inner = getattr(optimizer, name, None)
        if hasattr(inner, "register_step_pre_hook"):
            return innermost(inner)
    return optimizer


def with_closure(args: Any, kwargs: Any, around: Callable[[Any], Any]) -> tuple[Any, Any] | None:
    """Return the arguments of a step, with another function in place of the one that computes its loss; None: there is none."""
    closure = args[1] if len(args) > 1 else kwargs.get("closure")
    if not callable(closure) or hasattr(closure, "parameters"):  # some optimizers take a model
        return None
    changed = around(closure)
    return ((args[0], changed, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": changed})


@dataclass
class _Names:
    """Of an optimizer's parameters, for as long as these are the same objects."""

    of: list[weakref.ref[Any]]
    texts: list[str]
    encoded: list[bytes]

    def are_of(self, parameters: list[Any]) -> bool:
        return len(self.of) == len(parameters) and all(known() is p for known, p in zip(self.of, parameters))


class WatchedOptimizer:
    """Holds neither the optimizer nor its tensors."""

    def __init__(self, optimizer: Any, name_of: Callable[[Any], str | None], after_step: Callable[[], None]) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._name_of = name_of
        self._after_step = after_step
        self._steps = 0
        self._seen: tuple[int, int] = (0, 0)
        self._names: _Names | None = None
        self._handles = [
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ]

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()

    def name_states(self) -> None:
        self._names = None  # the model's may have changed
        optimizer = self._optimizer()
        if optimizer is not None:
            name_tensors(self._states(optimizer), "optimizer state")
            self._seen = self._sign(optimizer)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if place.in_step:  # the last step did not come to its end
            place.in_step = False
            _marks.scope_end()
        if not _marks.is_recording():
            return None
        self._name_gradients(optimizer)
        _marks.scope_begin("optimizer")
        place.in_step = True
        return with_closure(args, kwargs, self._outside)

    def _outside(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs outside of the step's scope: a forward and a backward pass, as Lightning gives to each step."""

        @functools.wraps(closure)
        def run(*args: Any, **kwargs: Any) -> Any:
            if not place.in_step:
                return closure(*args, **kwargs)
            _marks.scope_end()
            place.in_step = False
            try:
                result = closure(*args, **kwargs)
                optimizer = self._optimizer()
                if optimizer is not None:
                    self._name_gradients(optimizer)
                return result
            finally:
                _marks.scope_begin("optimizer")
                place.in_step = True

        return run

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if not place.in_step:
            return
        place.in_step = False
        _marks.scope_end()
        self._steps += 1
        if self._steps <= _MAX_STATE_STEPS or self._seen != self._sign(optimizer):
            self.name_states()
        self._after_step()

    def _name_gradients(self, optimizer: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if self._names is None or not self._names.are_of(parameters):
            texts = [name for name, _ in self._parameters(optimizer)]
            encoded = [text.encode(errors="replace") for text in texts]
            self._names = _Names([weakref.ref(p) for p in parameters], texts, encoded)
        name_gradients(parameters, self._names.texts, self._names.encoded)

    def _parameters(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        for index, parameter in enumerate(parameters):
            yield self._name_of(parameter) or f"{type(optimizer).__name__}.{index}", parameter

    def _states(self, optimizer: Any) -> Iterator[tuple[str, Any]]:
        for name, parameter in self._parameters(optimizer):
            state = optimizer.state.get(parameter, {})  # PyTorch's own have a dict there, others need not
            for key, value in state.items() if isinstance(state, dict) else ():
                if is_tensor(value):
                    yield joined(name, str(key)), value

    def _sign(self, optimizer: Any) -> tuple[int, int]:
        """Changes when states are added, and when load_state_dict() puts others in their place."""
        first = next((tensor for _, tensor in self._states(optimizer) if address(tensor)), None)
        return len(optimizer.state), 0 if first is None else address(first)

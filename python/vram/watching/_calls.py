"""The calls of a model's modules: each is a scope, and its tensors tell when their gradients arrive.

A module is not given hooks: with any hook PyTorch takes a slower way through every call, and hooks are copied and
pickled with the module. It gets instead what ``Module.compile()`` sets, the function that a call goes to
(``_compiled_call_impl``): copies and pickles leave that out, and torch.compile looks through it.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Optional, Protocol

from vram import _marks
from vram.watching._phases import arrive, place, resume_backward, suspend_backward

_SLOT = "_compiled_call_impl"
_MAX_OUTPUT_DEPTH = 3


class _Call(functools.partial):  # type: ignore[type-arg]
    """What lies in the slot. Copied or pickled all the same, by modules that do it their own way, it is none."""

    before: Any

    def __deepcopy__(self, _memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()


OnGradient = Optional[Callable[[Any], None]]


def is_watched(module: Any) -> bool:
    return isinstance(module.__dict__.get(_SLOT), _Call)


def unwatch(module: Any) -> None:
    """Leaves alone what somebody else has put there since. Of a replica: it must not call the module it is of."""
    if is_watched(module):
        before = module.__dict__.pop(_SLOT).before
        if before is not None:
            module.__dict__[_SLOT] = before


class Watcher(Protocol):
    is_active: bool  # gradients may arrive after the watch has ended; then nothing is said

    def prepare(self, args: Any, kwargs: Any) -> None:
        """Said of a recorded call that no other watched one is around."""


def watch_calls(module: Any, name: str, watcher: Watcher) -> None:
    import torch

    is_grad_enabled, is_traced = torch.is_grad_enabled, torch.compiler.is_dynamo_compiling
    begin, end, _, is_recording = _marks.functions()
    encoded = name.encode(errors="replace")
    # The module holds these functions, so they must not hold the module.
    the_module, before = weakref.ref(module), module.__dict__.get(_SLOT)

    def on_gradient(_gradients: Any) -> None:
        if watcher.is_active:
            arrive(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        target = before or the_module()._call_impl  # type: ignore[union-attr]
        if is_traced():  # torch.compile comes here where it can't look through: around modules with hooks
            return target(*args, **kwargs)
        if not place.in_call:
            if not is_recording():
                return target(*args, **kwargs)
            watcher.prepare(args, kwargs)
            return _outermost(call, args, kwargs)
        needs_gradients = is_grad_enabled()
        if needs_gradients:
            around = _enter(args, on_gradient)
        begin(encoded)
        try:
            output = target(*args, **kwargs)
        finally:
            end()
            if needs_gradients:
                place.on_gradient = around
        if needs_gradients:
            _mark(output, on_gradient)
        return output

    module.__dict__[_SLOT] = in_slot = _Call(call)
    in_slot.before = before


def _outermost(call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    suspended = suspend_backward()
    _marks.scope_begin("forward" if suspended is None else "recompute")
    place.in_call = True
    _mark((args, kwargs), None)
    made_before = len(place.marked)
    try:
        output = call(*args, **kwargs)
        needs_loss = suspended is None and len(place.marked) > made_before
    finally:
        place.in_call = False
        place.marked.clear()
        _marks.scope_end()
        resume_backward(suspended)
    if needs_loss:  # what is made of the output until backward begins
        _marks.trail("forward", "loss")
    return output


def _enter(args: Any, on_gradient: OnGradient) -> OnGradient:
    """What made the arguments in the calling module's own code is the caller's. Answers the caller."""
    caller = place.on_gradient
    if caller is not None:
        for argument in args:
            _mark(argument, caller)
    place.on_gradient = on_gradient
    return caller


def _mark(value: Any, on_gradient: OnGradient, depth: int = 0) -> None:
    """The innermost module whose output a tensor is comes first, and stays. None: of no module of this pass."""
    node = value.grad_fn if hasattr(type(value), "grad_fn") else None
    if node is not None:
        number = node._sequence_nr()
        if number not in place.marked:
            place.marked.add(number)
            if on_gradient is not None:
                node.register_prehook(on_gradient)
    elif depth < _MAX_OUTPUT_DEPTH and isinstance(value, (tuple, list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            _mark(part, on_gradient, depth + 1)

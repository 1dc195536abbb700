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
from vram.watching._phases import Engine, arrive, place, resume_backward, suspend_backward

_SLOT = "_compiled_call_impl"
_MAX_OUTPUT_DEPTH = 3


class Call(functools.partial):  # type: ignore[type-arg]
    """The object in the slot. If a module with its own way of copying or pickling copies it, the copy is None."""

    before: Any
    reference: Any

    def __deepcopy__(self, _memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return type(None), ()


OnGradient = Optional[Callable[[Any], None]]


def is_watched(module: Any) -> bool:
    return isinstance(module.__dict__.get(_SLOT), Call)


def unwatch(module: Any) -> None:
    """Remove vram's call, unless other code has replaced it since; a replica must not call the original module either."""
    if is_watched(module):
        before = module.__dict__.pop(_SLOT).before
        if before is not None:
            module.__dict__[_SLOT] = before


class Watcher(Protocol):
    is_active: bool  # False after the watch has ended, when gradients may still arrive

    def prepare(self, args: Any, kwargs: Any) -> None:
        """Said of a recorded call that no other watched one is around."""


def watch_calls(module: Any, name: str, watcher: Watcher) -> None:
    import torch

    is_traced = torch.compiler.is_dynamo_compiling
    is_recording = _marks.functions().is_recording
    # The module holds these functions, so they must not hold the module.
    the_module, before = weakref.ref(module), module.__dict__.get(_SLOT)
    inner = None if Engine.native is not None else _inner_call(name, watcher)

    def call(*args: Any, **kwargs: Any) -> Any:
        target = before or the_module()._call_impl  # type: ignore[union-attr]
        if is_traced():  # torch.compile comes here where it can't look through: around modules with hooks
            return target(*args, **kwargs)
        if place.in_call and inner is not None:
            return inner(target, args, kwargs)
        if not is_recording():
            return target(*args, **kwargs)
        watcher.prepare(args, kwargs)
        return _outermost(the_module().__dict__[_SLOT], args, kwargs)

    made = Call if Engine.native is None else Engine.native.type
    module.__dict__[_SLOT] = in_slot = made(call)
    in_slot.before, in_slot.reference = before, the_module
    if Engine.native is not None:
        Engine.native.begin(in_slot, name.encode(errors="replace"), the_module, before)


def _inner_call(name: str, watcher: Watcher) -> Callable[[Callable[..., Any], Any, Any], Any]:
    """What a call within another does, where the native part does not do it."""
    import torch

    is_grad_enabled = torch.is_grad_enabled
    begin, end, _, _ = _marks.functions()
    encoded = name.encode(errors="replace")

    def on_gradient(_gradients: Any) -> None:
        if watcher.is_active:
            arrive(name)

    def inner(target: Callable[..., Any], args: Any, kwargs: Any) -> Any:
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

    return inner


def _outermost(call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    suspended = suspend_backward()
    _marks.scope_begin("forward" if suspended is None else "recompute")
    began = _enter_pass((args, kwargs))
    has_nodes = False
    try:
        output = call(*args, **kwargs)
    finally:
        has_nodes = _leave_pass(began)
        _marks.scope_end()
        resume_backward(suspended)
    if suspended is None and has_nodes:  # what is made of the output until backward begins
        _marks.trail("forward", "loss")
    return output


def _enter_pass(arguments: Any) -> int:
    place.in_call = True
    if Engine.native is not None:
        return Engine.native.enter_pass()  # type: ignore[no-any-return]
    _mark(arguments, None)
    return len(place.marked)


def _leave_pass(began: int) -> bool:
    """Whether the pass has made nodes, so that something can be computed from its output until backward begins."""
    place.in_call = False
    if Engine.native is not None:
        return bool(Engine.native.leave_pass(began))
    has_nodes = len(place.marked) > began
    place.marked.clear()
    return has_nodes


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

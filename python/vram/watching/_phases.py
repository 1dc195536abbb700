"""Where a thread is in a step: the scopes forward, loss, recompute and backward, and the module within them.

A forward pass nests: each module's scope is inside its caller's. Backward does not: gradients arrive at the outputs of
one module after the other, so each arrival ends the scope of the module before and begins that of its own. Backward of
a GPU's part of the graph runs on a thread of PyTorch's, which has its own scopes.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable

from vram import _marks
from vram.watching._native import Native


class Engine:
    """Who follows backward: the native part, or None for the functions below. Changes only while nothing is watched."""

    native: Native | None = None


@dataclass
class Place(threading.local):
    """Of the calling thread."""

    in_call: bool = False  # a watched module's forward runs
    backward: str | None = None  # the scope in "backward" that is open; None: "backward" is not open
    in_step: bool = False  # an optimizer steps
    runs: int = 0  # calls of autograd's engine from this thread that have not returned
    marked: set[int] = field(default_factory=set)  # nodes of the running forward pass whose module is known
    on_gradient: Callable[[Any], None] | None = None  # of the module whose forward runs


place = Place()


def _end_backward() -> None:
    if place.backward is not None:
        _marks.scope_end()
        _marks.scope_end()
        place.backward = None


def arrive(name: str) -> None:
    """Gradients arrive at what `name` made: from here on this thread works for it."""
    before = place.backward
    if before == name:
        return
    if before is None:
        _marks.scope_begin("backward")
        if not place.runs:  # a thread of PyTorch's, where nothing else ends this
            _autograd().variable.Variable._execution_engine.queue_callback(_end_backward)
    else:
        _marks.scope_end()
    _marks.scope_begin(name)
    place.backward = name


def _autograd() -> Any:
    import torch

    return torch.autograd


def backward_began() -> None:
    """The native part has begun the scope of backward on a thread of PyTorch's, where nothing else ends this."""
    _autograd().variable.Variable._execution_engine.queue_callback(suspend_backward)


def suspend_backward() -> Any:
    """Something else begins on this thread, within backward. Answers what resume_backward() needs."""
    if Engine.native is not None:
        return Engine.native.suspend()
    name = place.backward
    _end_backward()
    return name


def resume_backward(before: Any) -> None:
    if Engine.native is not None:
        Engine.native.resume(before)
        return
    _end_backward()
    if before is not None:
        _marks.scope_begin("backward")
        _marks.scope_begin(before)
        place.backward = before


def run_backward(run: Callable[..., Any], roots: Any, *args: Any, **kwargs: Any) -> Any:
    """Autograd's engine, called by this thread."""
    if not _marks.is_recording():
        return run(roots, *args, **kwargs)
    _marks.end_trail()
    native = Engine.native
    handles = [node.register_prehook(_arrive_at_loss) for node in map(_node, roots) if _needs_hook(node, native)]
    outer = suspend_backward()
    _count_run(native, 1)
    try:
        return run(roots, *args, **kwargs)
    finally:
        _count_run(native, -1)
        resume_backward(outer)
        for handle in handles:
            handle.remove()


def _count_run(native: Native | None, more: int) -> None:
    if native is None:
        place.runs += more
    elif more > 0:
        native.begin_run()
    else:
        native.end_run()


def _node(root: Any) -> Any:
    return root.grad_fn if hasattr(root, "grad_fn") else root.node


def _needs_hook(node: Any, native: Native | None) -> bool:
    return node is not None and (native is None or not native.knows(node._sequence_nr()))


def _arrive_at_loss(_gradients: Any) -> None:
    if Engine.native is not None:
        Engine.native.arrive_at_loss()
    elif place.backward is None:  # else a module made the loss, and its own hook came first
        arrive("loss")

"""What is put into PyTorch for the whole process while anything is watched: one way in, one way out.

Where a version of PyTorch has no such place, it is left out: backward is then known by its gradients alone.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable

from vram.watching._calls import Call, unwatch
from vram.watching._native import native
from vram.watching._phases import Engine, backward_began, run_backward

# Garbage may be collected anywhere, also below: the end of a model's life then calls leave() in the same thread.
_lock = threading.RLock()
_watches = 0
_put_back: list[Callable[[], None]] = []


def _replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    before = getattr(owner, name, None)
    if before is None:
        return
    ours = functools.wraps(before)(make(before))
    setattr(owner, name, ours)

    def put_back() -> None:
        if getattr(owner, name) is ours:
            setattr(owner, name, before)

    _put_back.append(put_back)


def _engine(before: Any) -> Any:
    return functools.partial(run_backward, before)


def _replicate(before: Any) -> Any:
    def replicate(module: Any) -> Any:
        replica = before(module)
        unwatch(replica)
        return replica

    return replicate


def enter() -> None:
    global _watches
    import torch

    with _lock:
        is_first = _watches == 0
        _watches += 1
        if not is_first:
            return
        try:
            Engine.native = native(Call)  # may compile it for seconds, which the user may interrupt
            if Engine.native is not None:
                Engine.native.start(backward_began)
            _replace(torch.autograd, "_engine_run_backward", _engine)
            _replace(torch.nn.Module, "_replicate_for_data_parallel", _replicate)
        except BaseException:
            leave([])
            raise


def leave(names: list[str]) -> None:
    """One watch ends; `names` are those of its modules."""
    global _watches
    with _lock:
        _watches -= 1
        if Engine.native is not None:
            for name in names:
                Engine.native.end(name.encode(errors="replace"))
            if not _watches:
                Engine.native.stop()
        while not _watches and _put_back:
            _put_back.pop()()

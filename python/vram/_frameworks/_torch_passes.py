"""Who is called before a backward pass of PyTorch, and before other calls. Any number of threads, at the same time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class _Listener:
    begins: Callable[[list[Any]], None]
    inner_too: bool
    thread: int = field(default_factory=threading.get_ident)
    running: int = 0  # passes of its thread, one within another

    def hears(self) -> bool:
        """Whether the pass that begins is its thread's.

        Autograd runs inner passes (of reentrant checkpoints) of a GPU in threads of its own, which Python did not start.
        """
        if self.running and not self.inner_too:
            return False
        is_autograds = isinstance(threading.current_thread(), threading._DummyThread)
        return self.thread == threading.get_ident() or (self.running > 0 and is_autograds)


class Passes:
    """Calls listeners before each backward pass of the thread that added them.

    While there are any, torch.autograd.backward is replaced: Tensor.backward calls it, and PyTorch has no hook before a whole
    pass.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[_Listener, ...] = ()
        self._before: Any = None
        self._replacement: Any = None  # None: nothing is replaced

    @contextmanager
    def heard(self, autograd: Any, begins: Callable[[list[Any]], None], *, inner_too: bool) -> Iterator[None]:
        """Within it `begins` gets the roots of each pass. inner_too: also of passes within a pass."""
        listener = _Listener(begins, inner_too)
        with self._lock:
            self._listeners = (*self._listeners, listener)
            if self._replacement is None:
                self._before = autograd.backward
                self._replacement = autograd.backward = self._announcing(autograd.backward)
        try:
            yield
        finally:
            with self._lock:
                self._listeners = tuple(other for other in self._listeners if other is not listener)
                # Whatever has been put over it since calls it still.
                if not self._listeners and autograd.backward is self._replacement:
                    autograd.backward, self._replacement = self._before, None

    def _announcing(self, backward: Any) -> Any:
        @functools.wraps(backward)
        def announced(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            several = not hasattr(tensors, "grad_fn") and not hasattr(tensors, "node")  # neither a tensor nor an edge
            roots = list(tensors) if several else [tensors]
            hearing = [listener for listener in self._listeners if listener.hears()]
            own = [listener for listener in self._listeners if listener.thread == threading.get_ident()]
            for listener in hearing:
                listener.begins(roots)
            for listener in own:
                listener.running += 1
            try:
                return backward(roots if several else tensors, *args, **kwargs)
            finally:
                for listener in own:
                    listener.running -= 1

        return announced


@contextmanager
def preceded(owner: Any, name: str, first: Callable[..., None]) -> Iterator[None]:
    """Within it `first` is called before each call of `owner.name` by this thread, with the same arguments."""
    method, here = getattr(owner, name), threading.get_ident()

    @functools.wraps(method)
    def calling(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == here:
            first(*args, **kwargs)
        return method(*args, **kwargs)

    setattr(owner, name, calling)
    try:
        yield
    finally:
        setattr(owner, name, method)

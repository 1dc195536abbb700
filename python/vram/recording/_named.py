"""``vram.scope()`` and ``vram.step()``: what the program is doing, for reports."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from vram import _marks
from vram.monitoring import _board

F = TypeVar("F", bound=Callable[..., Any])


class Scope:
    """A named region; made by scope(). As a decorator it surrounds every call."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Scope:
        _marks.scope_begin(self._name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _marks.scope_end()

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def inside(*arguments: Any, **named: Any) -> Any:
            with self:
                return function(*arguments, **named)

        return inside  # type: ignore[return-value]


def scope(name: str) -> Scope:
    """Name a region of the calling thread: ``with vram.scope("forward"):``, or as a decorator.

    Scopes nest; reports attribute an allocation to the path of its scopes ("forward/attention"). A thread without open scopes (such
    as autograd's) counts for the thread that opened the program's first one. Costs about 1 µs, with or without a recording.

    >>> import vram
    >>> with vram.scope("forward"):
    ...     with vram.scope("attention"):
    ...         pass
    >>> @vram.scope("loss")
    ... def loss(x):
    ...     return x * 2
    >>> loss(2)
    4
    """
    return Scope(name)


class _Steps:
    number = 0
    began_ns: int | None = None


def step() -> None:
    """Begin a training step and end the previous one. To be called once at the top of each iteration, by any thread.

    Recordings contain the step's number, from 0; the board (``vram.Board``) shows the last step and its duration.

    >>> import vram
    >>> for batch in range(3):
    ...     vram.step()
    """
    _marks.step()
    now_ns = time.monotonic_ns()
    if _Steps.began_ns is not None:
        _board.post_step(_Steps.number, now_ns - _Steps.began_ns)
        _Steps.number += 1
    _Steps.began_ns = now_ns

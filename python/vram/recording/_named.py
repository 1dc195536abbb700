"""``vram.scope()`` and ``vram.step()``: mark what the program is doing, for reports."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from vram import _marks
from vram._texts import tr
from vram.monitoring import _board
from vram.recording import _flight, _pinned

F = TypeVar("F", bound=Callable[..., Any])


class Scope:
    """A named region, created by scope(). As a decorator, it surrounds every call."""

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
    """Name a region of the calling thread: ``with vram.scope("forward"):``, or a decorator of a function.

    Scopes nest, and reports show their path ("forward/attention"). A thread without an open scope, such as those of
    autograd, uses those of the thread that opened the program's first scope. Takes about 1 us, with or without a
    recording.

    Raises:
        TypeError: The name is not a text; a decorator takes one, too: ``@vram.scope("forward")``.

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
    if not isinstance(name, str):
        raise TypeError(tr('scope takes the name of a region, not {!r}; write vram.scope("forward")').format(name))
    return Scope(name)


class _Steps:
    number = 0
    began_ns: int | None = None


def step() -> None:
    """Begin a step of training, and end the previous one. Call it once at the beginning of each iteration. Any thread.

    Recordings contain the number of the step, starting at 0; the status page (``vram.Board``) the last step and its
    duration.

    >>> import vram
    >>> for batch in range(3):
    ...     vram.step()
    """
    _pinned.record()
    _marks.step()
    _flight.attach_once_imported()
    now_ns = time.monotonic_ns()
    if _Steps.began_ns is not None:
        _board.post_step(_Steps.number, now_ns - _Steps.began_ns)
        _Steps.number += 1
    _Steps.began_ns = now_ns

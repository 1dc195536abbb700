"""retry_on_oom: a function of a batch size, or of a batch, called again with less of it when memory runs out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeVar, cast, overload

from vram._error import VramError
from vram._frameworks._training import training_framework
from vram.recover._parts import InParts
from vram.recover._tries import Rules, Tries
from vram.recover._votes import Votes

F = TypeVar("F", bound=Callable[..., Any])
_NAMES = ("batch_size", "batch")


@overload
def retry_on_oom(function: F) -> F: ...


@overload
def retry_on_oom(
    function: None = None,
    *,
    argument: str | None = None,
    shrink: Callable[[int], int] | None = None,
    multiple_of: int = 8,
    min_size: int = 1,
    max_attempts: int = 16,
    from_scratch: bool = False,
    join: Callable[[list[Any]], Any] | None = None,
    group: Any = None,
) -> Callable[[F], F]: ...


def retry_on_oom(  # size: most of it says what the parameters mean
    function: F | None = None,
    *,
    argument: str | None = None,
    shrink: Callable[[int], int] | None = None,
    multiple_of: int = 8,
    min_size: int = 1,
    max_attempts: int = 16,
    from_scratch: bool = False,
    join: Callable[[list[Any]], Any] | None = None,
    group: Any = None,
) -> F | Callable[[F], F]:
    """Decorates a function that may run out of memory: it is called again, with a smaller batch.

    Which argument is reduced: `argument`, else the one that is called ``batch_size`` or ``batch``. If it is a number,
    the function is called with half of it (rounded down to `multiple_of`, as long as that leaves something; or
    with what ``shrink(size)`` gives) and its result is returned; the next call of the caller starts at what the caller
    asks for. If it is a batch (a tree of tensors), it is cut along dimension 0, the function called for each part in
    turn, and the results joined along dimension 0 (or by ``join(results)``); the size that worked, in samples, is
    where the next call starts. Not below `min_size`; at most `max_attempts` calls that fail.

    A batch's results are joined only if they belong to samples: what is neither one for each sample nor the same for all
    parts (a mean, a count) is refused, and so are results that change with the samples beside them. To see that, the first
    time that a batch is cut, part of it is run again in smaller parts. With `join` that is yours to know.

    After a failure everything that it held is freed before the next call; if that gave memory back to the device, the
    same size is tried once more. Random numbers begin each time where they began first. Nothing else is undone: a
    function that computes gradients is one for ``vram.micro_batches``. It is not called again after its backward has added to
    gradients that were there before, nor once an optimizer has begun to step; from_scratch=True says that the function makes
    its own model and optimizer, so that it may be. group: ranks that call it together, a process group, and agree on sizes;
    the function must not communicate. Without it, a rank that works by itself is called again only without communication.

    Errors: the framework's out-of-memory error, with what was tried and bytes; VramError: no such argument, a function that
    can't be called again (async, a generator), results that can't be joined, another rank failed. Other errors
    pass through at once, those of a broken device too. Threads: sizes of one decorated function are shared, nothing else.

    >>> import torch, vram
    >>> @vram.retry_on_oom
    ... def evaluate(batch_size):
    ...     if batch_size > 30:
    ...         raise torch.OutOfMemoryError("simulated")
    ...     return batch_size
    >>> evaluate(batch_size=100)
    24
    >>> largest = []
    >>> @vram.retry_on_oom
    ... def double(batch):
    ...     if len(batch) > 4:
    ...         raise torch.OutOfMemoryError("simulated")
    ...     largest.append(len(batch))
    ...     return batch * 2
    >>> double(torch.arange(6)).tolist(), largest
    ([0, 2, 4, 6, 8, 10], [3, 3, 1, 2])
    """
    if function is None:
        options = (argument, shrink, multiple_of, min_size, max_attempts, from_scratch, join, group)
        return lambda decorated: _decorated(decorated, Rules(*options))
    return _decorated(function, Rules(argument, shrink, multiple_of, min_size, max_attempts, from_scratch, join, group))


def _decorated(function: F, rules: Rules) -> F:
    name = getattr(function, "__qualname__", str(function))
    _refuse_what_runs_later(function, name)
    signature = inspect.signature(function)
    names = (rules.argument,) if rules.argument is not None else _NAMES
    reduced = next((name for name in names if name in signature.parameters), None)
    if reduced is None:
        raise VramError(f"{name} has no argument {' or '.join(map(repr, names))} to reduce; name one with argument=")
    key: str = reduced

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        whole = bound.arguments[key]

        def call(value: Any) -> Any:
            bound.arguments[key] = value
            try:
                return function(*bound.args, **bound.kwargs)
            finally:
                bound.arguments[key] = whole

        attempts = Tries(training_framework(), rules, Votes(rules.group), name)
        if isinstance(whole, Integral):
            return attempts.until_it_works(int(whole), lambda size: call(whole if size == whole else size))
        return InParts(attempts, whole, call).result()

    return cast("F", wrapper)


def _refuse_what_runs_later(function: Any, name: str) -> None:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.isclass)
    if any(applies(function) for applies in kinds):
        raise VramError(
            f"retry_on_oom calls a function again that has failed; {name} is async, a generator or a class, which fails later "
            "than it is called. Decorate the function within it that does the work"
        )

"""retry_on_oom: calls a function of a batch size, or of a batch, again with a smaller one when memory runs out."""

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
    """Decorate a function that may run out of memory: it is called again with a smaller batch.

    If the reduced argument is a number, the function is called with half of it, and its result is returned; the caller's next call
    starts at the size that it passes. If the argument is a batch (a tree of tensors), it is cut along dimension 0, the function is
    called for each part, and the results are joined along dimension 0; the next call starts at the size that worked.

    Results of a batch are joined only if they belong to samples: what is neither one value per sample nor equal in all parts (a
    mean, a count) is refused, and so are results that depend on the other samples of the part. To check that, part of the batch
    is run again in smaller parts when a batch is cut for the first time. With ``join`` this check is up to the caller.

    After a failure, everything that the call held is freed; if that returned memory to the device, the same size is tried once
    more. Each call starts with the random number state of the first. Nothing else is undone: use ``vram.micro_batches`` for
    functions that compute gradients. A function whose backward has added to earlier gradients, or whose optimizer has begun to
    step, is not called again. Other errors, including those of a broken device, propagate at once. Threads share only the sizes
    of one decorated function.

    Args:
        argument: the name of the argument to reduce; by default ``batch_size`` or ``batch``.
        shrink: ``shrink(size)`` gives the next size instead of half.
        multiple_of: sizes are rounded down to a multiple of it, as long as something is left.
        min_size: the smallest size to try.
        max_attempts: the largest number of calls that fail.
        from_scratch: the function creates its own model and optimizer, and so may be called again in any case.
        join: ``join(results)`` joins the results of the parts.
        group: the process group of the ranks that call the function together and agree on sizes; the function must not
            communicate. Without it, a rank that works by itself calls the function again only if it does not communicate.

    Raises:
        torch.OutOfMemoryError: the last attempt failed; the text has all attempts with their bytes.
        VramError: there is no such argument, the function cannot be called again (async, a generator), its results cannot be
            joined, or another rank failed.

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

"""retry_on_oom: calls a function of a batch size, or of a batch, again with less of it if memory runs out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeVar, cast, overload

from vram._frameworks._training import training_framework
from vram._texts import tr
from vram.recover._claims import claim_of
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


def retry_on_oom(  # size: most of it documents the parameters
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
    """Decorate a function so that it is called again with a smaller batch if it runs out of memory.

    **A number** (`batch_size`) is halved, rounded down to `multiple_of` as long as that leaves something, or reduced
    by `shrink`. The next call starts with the size that its caller passes. **A batch** (a tree of tensors) is split
    along dimension 0, the function is called for each part, and the results are joined along dimension 0, or by
    `join`. The next call starts with the size that worked.

    Without `join`, results are joined only if they belong to samples. A result that is neither one value per sample
    nor equal for all parts (a mean, a count) is refused, and so are results that depend on neighbouring samples: the
    first time that a batch is split, part of it runs again in smaller parts and is compared.

    After a failure, everything that the call held is freed; if that returned memory to the device, the same size is
    tried once more. Random generators restart from the same state. Nothing else is undone: use ``vram.micro_batches``
    for gradients. The function is not called again after its backward added to earlier gradients, or after an
    optimizer began to step. Sizes of one decorated function are shared by all threads, nothing else.

    Args:
        function: The function to decorate.
        argument: The argument to reduce. Default: ``batch_size`` or ``batch``.
        shrink: ``shrink(size)`` returns the next size to try.
        multiple_of: Sizes are multiples of this, as long as that leaves something.
        min_size: The smallest size to try.
        max_attempts: The most failed calls.
        from_scratch: States that the function creates its own model and optimizer, so it may be called again in any case.
        join: ``join(results)`` combines the results of parts.
        group: The process group of ranks that call it together and agree on sizes; the function must not communicate.
            Without it, a rank is called again only if the function did not communicate.

    Raises:
        torch.OutOfMemoryError: The last error, with the attempts and their bytes.
        TypeError: The function cannot be called again (async, a generator, a class).
        ValueError: It has no such argument, its batch cannot be split, or a number is below 1.
        VramError: Results cannot be joined, or another rank failed. Other errors propagate at once.

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
        raise ValueError(
            tr("{} has no argument {} to reduce; name one with argument=").format(name, " or ".join(map(repr, names)))
        )
    key: str = reduced

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        whole = bound.arguments[key]

        def call(value: Any) -> Any:
            bound.arguments[key] = value
            try:
                result = function(*bound.args, **bound.kwargs)
            finally:
                bound.arguments[key] = whole
            if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
                raise _runs_later(name)
            return result

        attempts = Tries(training_framework(), rules, Votes(rules.group), name)
        if isinstance(whole, Integral):
            return attempts.until_it_works(int(whole), lambda size: call(whole if size == whole else size))
        others = [value for name, value in bound.arguments.items() if name != key]
        return InParts(attempts, whole, call, tuple(map(claim_of, [function, *others]))).result()

    return cast("F", wrapper)


def _refuse_what_runs_later(function: Any, name: str) -> None:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction, inspect.isclass)
    if any(applies(function) for applies in kinds):
        raise _runs_later(name)


def _runs_later(name: str) -> TypeError:
    return TypeError(
        tr(
            "retry_on_oom calls a function again that has failed; {} is async, a generator or a "
            "class, which fails later than it is called. Decorate the function within it that does "
            "the work"
        ).format(name)
    )

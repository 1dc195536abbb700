"""retry_on_oom: a function of a batch size, or of a batch, called again with less of it when memory runs out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from vram._error import VramError
from vram._frameworks._training import Training, training_framework
from vram.recover import _trees
from vram.recover._oom import Failure, attempt, free
from vram.recover._randomness import Randomness

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
    minimum: int = 1,
    tries: int = 16,
    from_scratch: bool = False,
    join: Callable[[list[Any]], Any] | None = None,
) -> Callable[[F], F]: ...


def retry_on_oom(  # size: most of it says what the parameters mean
    function: F | None = None,
    *,
    argument: str | None = None,
    shrink: Callable[[int], int] | None = None,
    multiple_of: int = 8,
    minimum: int = 1,
    tries: int = 16,
    from_scratch: bool = False,
    join: Callable[[list[Any]], Any] | None = None,
) -> F | Callable[[F], F]:
    """Decorates a function that may run out of memory: it is called again, with a smaller batch.

    Which argument is reduced: `argument`, else the one that is called ``batch_size`` or ``batch``. If it is a number,
    the function is called with half of it (rounded down to `multiple_of`, as long as that leaves something; or
    with what ``shrink(size)`` gives) and its result is returned; the next call of the caller starts at what the caller
    asks for. If it is a batch (a tree of tensors), it is cut along dimension 0, the function called for each part in
    turn, and the results joined along dimension 0 (or by ``join(results)``); the size that worked, in samples, is
    where the next call starts. Not below `minimum`; at most `tries` calls that fail.

    After a failure everything that it held is freed before the next call; if that gave memory back to the device, the
    same size is tried once more. Random numbers begin each time where they began first. Nothing else is undone: a
    function that computes gradients is one for ``vram.micro_batches``. Once an optimizer has begun to step, nothing is
    called again; from_scratch=True says that the function makes its own model and optimizer, so that it may be.

    Errors: the framework's out-of-memory error, with what was tried and bytes; VramError: no such argument. Other errors
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
    ([0, 2, 4, 6, 8, 10], [3, 3])
    """
    if function is None:
        options = (argument, shrink, multiple_of, minimum, tries, from_scratch, join)
        return lambda decorated: _decorated(decorated, _Rules(*options))
    return _decorated(function, _Rules(argument, shrink, multiple_of, minimum, tries, from_scratch, join))


@dataclass
class _Rules:
    argument: str | None
    shrink: Callable[[int], int] | None
    multiple_of: int
    minimum: int
    tries: int
    from_scratch: bool
    join: Callable[[list[Any]], Any] | None
    remembered: int | None = None  # samples; of functions that take a batch

    def smaller(self, size: int) -> int:
        """0 where nothing smaller may be tried."""
        if self.shrink is not None:
            smaller = int(self.shrink(size))
            if smaller >= size:
                raise VramError(f"shrink({size}) gave {smaller}; it must give less")
        else:
            half = size // 2
            smaller = half // self.multiple_of * self.multiple_of or half
        return smaller if smaller >= self.minimum else 0


def _decorated(function: F, rules: _Rules) -> F:
    signature = inspect.signature(function)
    names = (rules.argument,) if rules.argument is not None else _NAMES
    name = next((name for name in names if name in signature.parameters), None)
    if name is None:
        raise VramError(
            f"{getattr(function, '__qualname__', function)} has no argument {' or '.join(map(repr, names))} to reduce; "
            "name one with argument="
        )
    reduced: str = name

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        whole = bound.arguments[reduced]

        def call(value: Any) -> Any:
            bound.arguments[reduced] = value
            try:
                return function(*bound.args, **bound.kwargs)
            finally:
                bound.arguments[reduced] = whole

        tries = _Tries(training_framework(), rules, getattr(function, "__qualname__", str(function)))
        if isinstance(whole, int):
            return tries.until_it_works(whole, call)
        return _in_parts(tries, whole, call)

    return cast("F", wrapper)


def _in_parts(tries: _Tries, whole: Any, call: Callable[[Any], Any]) -> Any:
    rules, total = tries.rules, _trees.samples(whole)

    def run(size: int) -> Any:
        if size >= total:
            return call(whole)
        parts = [_trees.part(whole, start, min(start + size, total), total) for start in range(0, total, size)]
        return _joined([call(part) for part in parts], rules, tries.framework)

    result = tries.until_it_works(min(total, rules.remembered or total), run)
    if tries.failures:
        rules.remembered = tries.size
    return result


def _joined(results: Sequence[Any], rules: _Rules, framework: Training) -> Any:
    return rules.join(list(results)) if rules.join is not None else _trees.join(results, framework.concatenate)


class _Tries:
    """Of one call of a decorated function."""

    def __init__(self, framework: Training, rules: _Rules, name: str) -> None:
        self.framework = framework
        self.rules = rules
        self.size = 0
        self.failures: list[tuple[int, Failure]] = []
        self._name = name
        self._randomness = Randomness(framework)

    def until_it_works(self, size: int, run: Callable[[int], Any]) -> Any:
        again = True  # with the same size, if there was something to free
        while True:
            self.size = size
            outcome = attempt(self.framework, lambda: run(self.size))
            if outcome.failure is None:
                return outcome.value
            self.failures.append((size, outcome.failure))
            if outcome.stepped and not self.rules.from_scratch:
                raise self._error("an optimizer had begun its step, which is never run again (see from_scratch)")
            freed = free(self.framework)
            self._randomness.restore()
            if len(self.failures) >= self.rules.tries:
                raise self._error("no more tries")
            again, same = False, again and freed > 0
            size = size if same else self.rules.smaller(size)
            if not size:
                raise self._error(f"nothing smaller may be tried (minimum {self.rules.minimum})")

    def _error(self, why: str) -> BaseException:
        tried = "; ".join(f"{size}: {failure}" for size, failure in self.failures)
        return self.framework.out_of_memory(f"{self._name} ran out of memory: {why}. Tried sizes {tried}")

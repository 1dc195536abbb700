"""``vram.monitor``: measures time and GPU memory of a function or a block, as a decorator or context manager."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import AsyncGenerator, Generator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Callable, TypeVar, cast, overload

from vram._arguments import require_integers
from vram._texts import tr
from vram.monitoring import _sinks
from vram.monitoring._region import Region

F = TypeVar("F", bound=Callable[..., Any])

# The regions that `with` has opened, innermost last. Each thread and each task has its own.
_open: ContextVar[tuple[tuple[Monitor, Region], ...]] = ContextVar("vram_open_regions", default=())


class Monitor:
    """The result of ``vram.monitor(…)``. It may be reused, nested, and used by several threads at once."""

    def __init__(
        self, name: str | None, synchronize: bool, every: int, reset_peaks: bool = True, driver: bool = True
    ) -> None:
        require_integers(1, every=every)
        self._name = name
        self._synchronize = synchronize
        self._every = every
        self._reset_peaks = reset_peaks
        self._driver = driver
        self.calls = itertools.count(1)
        self._begun: list[Region] = []  # begun by `with` and not ended; any thread may end one

    def __enter__(self) -> Region:
        region = self._region(self._name or "region")
        self._begin(region)
        _open.set((*_open.get(), (self, region)))
        self._begun.append(region)
        return region

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        stack = _open.get()
        mine = [i for i, (monitor, region) in enumerate(stack) if monitor is self and region in self._begun]
        if mine:
            region = stack[mine[-1]][1]
            _open.set(stack[: mine[-1]] + stack[mine[-1] + 1 :])
        elif self._begun:  # another thread or task began it; an exception here would hide the program's own error
            region = self._begun[-1]
        else:
            return
        self._begun.remove(region)
        self._end(region, error)

    def __call__(self, function: F) -> F:
        """Decorate a function: each call is a region."""
        if inspect.isclass(function):
            raise TypeError(
                tr("monitor decorates functions, not classes; decorate methods of {}").format(function.__qualname__)
            )
        if not callable(function):  # for example a classmethod: the decorator belongs below @classmethod
            raise TypeError(
                tr("monitor decorates a function, not {!r}; put it next to the function itself").format(function)
            )
        name = self._name or str(getattr(function, "__qualname__", type(function).__name__))
        wrap = next(wrap for applies, wrap in _WRAPPERS if applies(function))
        wrapped: Any = functools.wraps(function)(wrap(self, name, function))
        return cast(F, wrapped)

    def _region(self, name: str) -> Region:
        return Region(name, next(self.calls))

    def _begin(self, region: Region) -> None:
        if (region.call - 1) % self._every == 0:
            region.begin(self._synchronize, self._reset_peaks, self._driver)

    def _end(self, region: Region, error: BaseException | None) -> None:
        if (region.call - 1) % self._every == 0:
            _sinks.give(region.end(None if isinstance(error, GeneratorExit) else error))


class Around:
    """A region of a monitor that its other uses do not see; does nothing if no sink would receive the measurement."""

    def __init__(self, monitor: Monitor, name: str) -> None:
        self._monitor = monitor
        self._region = monitor._region(name)
        self._is_wanted = _sinks.are_listening()

    def __enter__(self) -> Region:
        if self._is_wanted:
            self._monitor._begin(self._region)
        return self._region

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_wanted:
            self._monitor._end(self._region, error)


def _around_function(monitor: Monitor, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def monitored(*args: Any, **kwargs: Any) -> Any:
        if not _sinks.are_listening():  # faster than a region without listeners
            next(monitor.calls)
            return function(*args, **kwargs)
        with Around(monitor, name):
            return function(*args, **kwargs)

    return monitored


def _around_coroutine(monitor: Monitor, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    async def monitored(*args: Any, **kwargs: Any) -> Any:
        with Around(monitor, name):
            return await function(*args, **kwargs)

    return monitored


def _around_generator(monitor: Monitor, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def monitored(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with Around(monitor, name):
            return (yield from function(*args, **kwargs))

    return monitored


def _around_async_generator(monitor: Monitor, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    async def monitored(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        with Around(monitor, name):
            try:
                step = inner.asend(None)
                while True:
                    item = await step
                    try:
                        step = inner.asend((yield item))
                    except GeneratorExit:
                        raise
                    except BaseException as thrown:  # the inner generator handles it
                        step = inner.athrow(thrown)
            except StopAsyncIteration:
                return
            finally:
                await inner.aclose()

    return monitored


_WRAPPERS: tuple[tuple[Callable[[Any], bool], Callable[[Monitor, str, Any], Any]], ...] = (
    (inspect.isasyncgenfunction, _around_async_generator),
    (inspect.iscoroutinefunction, _around_coroutine),
    (inspect.isgeneratorfunction, _around_generator),
    (callable, _around_function),
)


@overload
def monitor(what: F) -> F: ...
@overload
def monitor(
    what: str | None = None,
    *,
    synchronize: bool = False,
    every: int = 1,
    reset_peaks: bool = True,
    driver: bool = True,
) -> Monitor: ...
def monitor(
    what: Any = None, *, synchronize: bool = False, every: int = 1, reset_peaks: bool = True, driver: bool = True
) -> Any:
    """Measure a function or a block: its time, and per device the change, peak and fragmentation of its memory.

    Each result is a ``Measurement`` (bytes, nanoseconds), which the sinks receive: by default ``vram.log``, others by
    ``vram.add_sink()``. As long as the program has not set up logging and has added no sink, it is printed on standard
    error. As a decorator it accepts functions, coroutines and generators; a generator's region lasts
    from its first item to its last, including what the consumer does in between. As a context manager it returns the
    region, whose ``result`` is the measurement afterwards. Exceptions propagate, and their type is recorded.

    Memory is that of the whole process, including other threads. Without a GPU the figures are None, and the text says
    why. If no sink listens, a decorated function takes almost no extra time. Any thread may use it.

    Args:
        what: The function, or the name of the region.
        synchronize: Waits for the GPUs at both ends. Otherwise, time is host time, without unfinished work of the GPU.
        every: Measures only the 1st, (N+1)th, (2N+1)th use of this monitor.
        reset_peaks: Resets PyTorch's only peak counter at the beginning, to measure the region's peak. Nested and
            overlapping regions, in any thread, keep their peaks; ``vram.peaks()`` returns the program's own. False resets
            nothing; a peak is then known only if it exceeded all earlier ones.
        driver: Asks the driver at both ends what it counts for this process and on the device, because PyTorch's
            counters miss contexts, CuPy, NCCL and extensions. False saves these calls, for very short regions.

    Raises:
        ValueError: `every` is below 1.
        TypeError: `what` is neither a function nor a name.

    >>> import vram
    >>> @vram.monitor
    ... def train_step(batch):
    ...     return sum(batch)
    >>> train_step([1, 2])
    3
    >>> with vram.monitor("load") as region:
    ...     data = bytearray(1000)
    >>> region.result.name, region.result.error, region.result.duration_ns > 0
    ('load', None, True)
    """
    if what is None or isinstance(what, str):
        return Monitor(what, synchronize, every, reset_peaks, driver)
    if not callable(what):
        raise TypeError(
            tr('monitor takes a function, or the name of a region, not {!r}; write vram.monitor("load")').format(what)
        )
    return Monitor(None, synchronize, every, reset_peaks, driver)(what)

"""Calling something that may run out of memory, so that nothing of a failure outlives it; and freeing afterwards.

A caught error holds its traceback, that the frames, these the tensors: as long as one handler runs, nothing of the
failed step can be freed. So the error is made into text, its frames are emptied, and only then does anybody act.
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from vram._frameworks._training import Training
from vram._texts import tr

T = TypeVar("T")
_TEXT_LIMIT = 400  # characters of the framework's own message; the rest of it is advice


@dataclass(frozen=True)
class Failure:
    """What is kept of an out-of-memory error: text and numbers, nothing that could hold a tensor."""

    text: str
    allocated_bytes: int
    reserved_bytes: int
    stepped: bool  # an optimizer's step had begun: parameters may have changed

    def __str__(self) -> str:
        return tr("{} bytes in tensors, {} held: {}").format(self.allocated_bytes, self.reserved_bytes, self.text)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """Of one call: its value, or why there is none."""

    value: T | None = None
    failure: Failure | None = None
    stepped: bool = False


def attempt(framework: Training, call: Callable[[], T]) -> Outcome[T]:
    """Calls it. Errors that are not about memory pass through, those of a broken device among them."""
    steps: list[None] = []
    handled = sys.exc_info()[1]  # by the caller, whose frames are none of ours
    with framework.optimizer_steps(lambda: steps.append(None), lambda: None):
        try:
            return Outcome(value=call(), stepped=bool(steps))
        except BaseException as error:
            if not framework.is_out_of_memory(error):
                raise
            allocated, reserved = held(framework)
            failure = Failure(str(error).strip()[:_TEXT_LIMIT], allocated, reserved, bool(steps))
            _empty_frames(error, handled)
    return Outcome(failure=failure, stepped=failure.stepped)


def held(framework: Training) -> tuple[int, int]:
    """Bytes allocated and reserved on all devices that the program uses."""
    figures = [framework.figures(device) for device in framework.devices()]
    return sum(f.allocated_bytes or 0 for f in figures), sum(f.reserved_bytes or 0 for f in figures)


def free(framework: Training) -> int:
    """Bytes that went back to the devices. A device that an earlier error broke says so here, by that error."""
    _, before = held(framework)
    _empty_remembered(framework)
    gc.collect()
    for device in framework.devices():
        framework.synchronize(device)
    framework.release_cache()
    return max(0, before - held(framework)[1])


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """The error, what it came from, what was being handled when it came, and its members if it is a group."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        yield from _chain(other, seen)


def _empty_frames(error: BaseException, but: BaseException | None = None) -> None:
    others = set[int]()
    for _ in _chain(but, others):
        pass
    for link in _chain(error, others):
        traceback.clear_frames(link.__traceback__)  # frames that still run are left alone


def _empty_remembered(framework: Training) -> None:
    """Interactive interpreters and debuggers keep the last error: an older one about memory holds what failed then."""
    for name in ("last_exc", "last_value"):
        error = getattr(sys, name, None)
        if isinstance(error, BaseException) and framework.is_out_of_memory(error):
            _empty_frames(error)

"""What each block of a step takes: memory and time where the step passes from one block to the next."""

# mypy: allow-untyped-calls

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from vram._error import VramError
from vram._texts import tr, tr_later
from vram.planning._kept import tensors_in

Clock = Callable[[], int]
_ROUNDING = 512


@dataclass(frozen=True)
class Mark:
    """Memory and time at one moment; `peak_bytes` since the mark before."""

    live_bytes: int
    peak_bytes: int
    time_ns: int


@dataclass
class Step:
    """The marks of one forward and backward pass.

    Names: start, before N, after N (of a block's forward), loss; gradient N (of the result of block N; -1: of the input of the first
    block) and end. A gradient that no block needs has no mark.
    """

    marks: dict[str, Mark] = field(default_factory=dict)
    border_bytes: dict[int, int] = field(default_factory=dict)  # of the result of block N, or the input of the first
    freed: set[int] = field(default_factory=set)  # the results that no longer exist when their gradient does
    freed_in_forward: set[int] = field(default_factory=set)  # those of them that no longer exist when there is a loss
    is_direct: bool = True  # each block reads what the one before returned


def _bytes(tensors: list[Any]) -> int:
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
    return sum(-(-size // _ROUNDING) * _ROUNDING for size in storages.values())


class GpuMemory:
    """What PyTorch's allocator of the GPU has allocated; without a GPU, nothing is counted."""

    def __init__(self) -> None:
        self._counts = torch.cuda.is_available()

    def live_bytes(self) -> int:
        return int(torch.cuda.memory_allocated()) if self._counts else 0

    def peak_bytes(self) -> int:
        """The highest since the last reset()."""
        return int(torch.cuda.max_memory_allocated()) if self._counts else 0

    def reset(self) -> None:
        if self._counts:
            torch.cuda.reset_peak_memory_stats()


_WRONG_ORDER = tr_later(
    "block {} was called when block {} was expected; a plan needs blocks that the model calls once each, in their "
    "order: state them with blocks=[…]"
)
_NOT_ALL = tr_later("the model called {} of {} blocks; state those that it calls with blocks=[…]")


# size: its hooks share what the step has seen
def watched_step(
    blocks: list[Any], run: Callable[[], Any], clock: Clock, memory: Any = None, method: str = "forward"
) -> Step:
    """Run one step and return its marks.

    Args:
        blocks: In the order in which the model calls them.
        run: Does the forward pass and returns the loss.
        clock: Returns nanoseconds.
        memory: Counts memory; by default the GPU's (GpuMemory).
        method: Of the blocks, what runs them.

    Raises:
        VramError: A block is called twice, never, or not in its place.
    """
    step = Step()
    memory = memory or GpuMemory()
    expected = [0]
    previous: list[Any] = []
    results: dict[int, list[Any]] = {}  # weak references

    def is_gone(number: int) -> bool:
        return all(storage() is None for storage in results[number])

    def mark(name: str) -> None:
        step.marks[name] = Mark(memory.live_bytes(), memory.peak_bytes(), clock())
        memory.reset()

    def hook(number: int, tensors: list[Any]) -> None:
        step.border_bytes[number] = _bytes(tensors)
        results[number] = [weakref.ref(t.untyped_storage()) for t in tensors]

        def arrived(_gradient: Any) -> None:
            if is_gone(number):
                step.freed.add(number)
            mark(f"gradient {number}")

        wanting = [t for t in tensors if t.requires_grad and t.is_floating_point()]
        if wanting and not wanting[0].is_leaf:
            wanting[0].register_hook(arrived)

    def call(number: int, forward: Any, *args: Any, **kwargs: Any) -> Any:
        if number != expected[0]:
            raise VramError(tr(_WRONG_ORDER).format(number, expected[0]))
        expected[0] += 1
        given = tensors_in((args, kwargs))
        if number == 0:
            hook(-1, given[:1])
        elif not any(tensor is other for tensor in given for other in previous):
            step.is_direct = False
        previous.clear()
        mark(f"before {number}")
        result = forward(*args, **kwargs)
        mark(f"after {number}")
        previous.extend(tensors_in(result))
        hook(number, previous)
        return result

    kept = [block.__dict__.get(method) for block in blocks]
    for number, block in enumerate(blocks):
        setattr(block, method, partial(call, number, getattr(block, method)))
    try:
        memory.reset()
        mark("start")
        loss = run()
        previous.clear()
        mark("loss")
        step.freed_in_forward.update(filter(is_gone, results))
        loss.backward()
        mark("end")
    finally:
        for block, forward in zip(blocks, kept):
            if forward is None:
                delattr(block, method)
            else:
                setattr(block, method, forward)
    if expected[0] < len(blocks):
        raise VramError(tr(_NOT_ALL).format(expected[0], len(blocks)))
    return step


def wall_clock(device: torch.device) -> Clock:
    """A clock that waits for the GPU."""

    def now() -> int:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter_ns()

    return now

"""Steps of the model itself, where it is: measured, and without a trace in the model."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from vram.planning._measure import Mark, Step, wall_clock, watched_step
from vram.planning._question import Question, autocast_of, outside_autocast
from vram.planning._region import CheckpointRegion
from vram.planning._regions import Regions

_REPETITIONS = 3  # of measured steps


@contextlib.contextmanager
def as_before(model: Any, device: torch.device) -> Iterator[None]:
    """Leave gradients, buffers and random numbers as they are. Gradients are in the host's memory meanwhile, because a step frees them first."""
    gradients = [(p, p.grad) for p in model.parameters() if p.grad is not None]
    buffers = [(b, b.clone()) for b in model.buffers()]
    storages = {g.untyped_storage().data_ptr(): g.untyped_storage() for _, g in gradients if g.is_cuda}
    copies = [(storage, storage.nbytes(), storage.cpu()) for storage in storages.values()]
    for storage in storages.values():
        storage.resize_(0)
    model.zero_grad(set_to_none=True)
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        model.zero_grad(set_to_none=True)
        for storage, size_bytes, copy in copies:
            storage.resize_(size_bytes)
            storage.copy_(copy)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)


class LiveSteps:
    """Steps of the model with what is applied to it at the time."""

    def __init__(self, question: Question, device: torch.device, memory: Any = None) -> None:
        self._question, self._autocast, self._memory = question, autocast_of(device, device.type), memory
        self._clock = wall_clock(device)
        self._blocks = [question.model.get_submodule(name) for name in question.names]

    def _forward(self) -> Any:
        if not self._question.accumulates:
            self._question.model.zero_grad(set_to_none=True)
        return self._question.forward(self._question.model, self._question.sample, self._autocast)

    def run(self) -> None:
        self._forward().backward()

    def watched(self) -> Step:
        """Return the marks of the fastest of a few steps."""
        steps = []
        for _ in range(1 + _REPETITIONS):
            steps.append(watched_step(self._blocks, self._forward, self._clock, self._memory))
        return min(steps[1:], key=lambda step: step.marks["end"].time_ns - step.marks["start"].time_ns)

    def timed_ns(self) -> int:
        """Return the median time of a few steps."""
        times = []
        for _ in range(_REPETITIONS):
            began = self._clock()
            self.run()
            times.append(self._clock() - began)
        return sorted(times)[len(times) // 2]


def measured_steps(question: Question, device: torch.device) -> tuple[Step, Step, Step | None]:
    """Run the model with everything kept, each block a region, and each block one that keeps products. Only the times count.

    It never keeps everything, which may not fit: those times are what is left of the second step without its repetitions.
    """
    count = len(question.names)
    blocks = [question.model.get_submodule(name) for name in question.names]

    def timed(keeps_products: bool) -> Step:
        regions = Regions(question.model, blocks, tuple(CheckpointRegion(i, i, keeps_products) for i in range(count)))
        try:
            return steps.watched()
        finally:
            regions.remove()

    steps = LiveSteps(question, device)
    with as_before(question.model, device), outside_autocast(device):
        again = timed(False)
        products = None
        with contextlib.suppress(RuntimeError):
            products = timed(True)
    return _without_repetition(again, count), again, products


def _without_repetition(again: Step, count: int) -> Step:
    """Every block runs once less."""
    shift, marks = 0, dict(again.marks)
    for number in [None, *range(count - 1, -1, -1)]:
        if number is not None:
            shift += again.marks[f"after {number}"].time_ns - again.marks[f"before {number}"].time_ns
            name = f"gradient {number - 1}" if f"gradient {number - 1}" in marks else "end"
            marks[name] = Mark(0, 0, again.marks[name].time_ns - shift)
    if "gradient -1" in marks:
        marks["end"] = Mark(0, 0, again.marks["end"].time_ns - shift)
    return replace(again, marks=marks)


def or_none(run: Callable[[], Any], model: Any) -> Any:
    """Return what a function returns; None: the GPU ran out of memory, and what the function held is free."""
    with contextlib.suppress(torch.cuda.OutOfMemoryError):
        return run()
    model.zero_grad(set_to_none=True)
    gc.collect()  # blocks and their regions know each other
    torch.cuda.empty_cache()
    return None

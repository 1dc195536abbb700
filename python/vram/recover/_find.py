"""find_batch_size: the largest batch that a training step runs with, by a few real steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from vram._error import VramError
from vram._frameworks._training import Training, training_framework
from vram._sizes import parse_limit
from vram.recover._fit import Trial, next_size
from vram.recover._oom import attempt, free
from vram.recover._randomness import Randomness


@dataclass(frozen=True)
class BatchSize:
    """What ``vram.find_batch_size`` found. Bytes of one device. A value: use it from any thread.

    >>> import vram
    >>> vram.BatchSize(batch_size=96, budget_bytes=1 << 30, peak_bytes=1 << 29, trials=(), why="").batch_size
    96
    """

    batch_size: int
    budget_bytes: int
    peak_bytes: int  # measured at that size: what the allocator held at most
    trials: tuple[Trial, ...]  # in the order in which they were run
    why: str  # this size and no larger one


def find_batch_size(
    trial: Callable[[int], object],
    *,
    budget: int | str | None = None,
    multiple_of: int = 8,
    start: int | None = None,
    largest: int | None = None,
    max_trials: int = 8,
    device: int | None = None,
    framework: Training | None = None,
) -> BatchSize:
    """The largest batch size whose training step fits, from about three real steps: two small ones and the proof.

    ``trial(batch_size)`` runs one full training step (forward, backward, optimizer) on a batch of that size, the longest
    samples first. It trains: do this before the training, or put model and optimizer back afterwards. What is in memory
    already (model, optimizer state, other tensors) counts. Needs that grow along a line (usual) take three trials, now and
    then a fourth, and none runs out of memory; where they bend, more follow, up to `max_trials`.

    budget: what this process may hold of the device, in bytes or as "20GiB"; None: what it holds and all that is free now,
    within the limits set by ``torch.cuda.set_per_process_memory_fraction()`` and ``vram.enable(device_limit=...)``.
    multiple_of: of the result, unless only less fits. start: the first size, small (multiple_of). largest: no more than
    that. device: its number; None: the current one. framework: in place of PyTorch, for tests.

    The result was run, within the budget. Random numbers are afterwards as before. Errors: the framework's
    out-of-memory error if not even one sample fits; VramError: no GPU. Errors of the trial pass through. One thread;
    each rank for itself: the least of their results holds for all.

    >>> import torch, vram
    >>> vram.find_batch_size(lambda batch_size: None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vram._error.VramError: a batch size is found by measuring steps on a GPU...
    """
    used = framework if framework is not None else training_framework()
    number = device if device is not None else used.current_device()
    if number is None:
        raise VramError(
            "a batch size is found by measuring steps on a GPU, and PyTorch uses none here; put the model on one first"
        )
    free(used)
    held = used.figures(number).reserved_bytes or 0
    budget_bytes = parse_limit(budget) if budget is not None else held + used.free_bytes(number)
    search = _Search(used, number, trial, budget_bytes)
    randomness = Randomness(used)
    first = min(start or multiple_of, largest or sys.maxsize)
    search.run(first)
    while not search.best and first > 1:  # less than that: then any size will do
        first, multiple_of = first // 8 or 1, 1
        search.run(first)
    while len(search.trials) < max_trials:
        size = next_size(search.trials, budget_bytes, multiple_of, largest)
        if size is None:
            break
        search.run(size)
    randomness.restore()
    return search.result(multiple_of, largest)


class _Search:
    """The steps run so far."""

    def __init__(self, framework: Training, device: int, step: Callable[[int], object], budget_bytes: int) -> None:
        self.trials: list[Trial] = []
        self._framework = framework
        self._device = device
        self._step = step
        self._budget_bytes = budget_bytes
        self._failures: list[str] = []

    @property
    def best(self) -> Trial | None:
        return max((t for t in self.trials if t.fits), key=lambda trial: trial.batch_size, default=None)

    def run(self, batch_size: int) -> None:
        phases = _Phases(self._framework, self._device)
        with ExitStack() as stack:
            stack.enter_context(self._framework.backward_passes(phases.backward_begins))
            stack.enter_context(self._framework.optimizer_steps(phases.optimizer_begins, phases.optimizer_ends))
            outcome = attempt(self._framework, lambda: self._step(batch_size))
        self._framework.synchronize(self._device)
        phases.end()
        free(self._framework)
        if outcome.failure is not None:
            self._failures.append(f"{batch_size}: {outcome.failure}")
            self.trials.append(Trial(batch_size, fits=False))
        else:
            self.trials.append(phases.trial(batch_size, self._budget_bytes))

    def result(self, multiple_of: int, largest: int | None) -> BatchSize:
        best = self.best
        if best is None or best.peak_bytes is None:
            tried = "; ".join(self._failures) or "all of them ran, but over the budget"
            raise self._framework.out_of_memory(
                f"not even a batch of {min(t.batch_size for t in self.trials)} fits into {self._budget_bytes} bytes. "
                f"Tried {tried}"
            )
        return BatchSize(
            best.batch_size,
            self._budget_bytes,
            best.peak_bytes,
            tuple(self.trials),
            self._why(best, multiple_of, largest),
        )

    def _why(self, best: Trial, multiple_of: int, largest: int | None) -> str:
        if largest is not None and best.batch_size + multiple_of > largest:
            return f"no more than {largest} was asked for"
        over = [trial for trial in self.trials if not trial.fits]
        if over:
            nearest = min(over, key=lambda trial: trial.batch_size)
            found = f"needs {nearest.peak_bytes} bytes" if nearest.peak_bytes is not None else "ran out of memory"
            return f"a batch of {nearest.batch_size} {found}"
        return "by the line through the trials, more than 1 % more (or the next multiple) would not fit"


class _Phases:
    """Peaks of one step: of forward, of backward, of the optimizer. Called by its hooks."""

    def __init__(self, framework: Training, device: int) -> None:
        self._framework = framework
        self._device = device
        self._growing: list[int] = []  # peaks outside optimizers, less the state that had been made until then
        self._made = 0  # bytes of optimizer state that this step made: the next step has them from its beginning
        self._reserved = 0
        self._allocated = 0
        self._before, self._settled, self._at_begin = self._current(), 0, 0
        self._saved: int | None = None
        framework.reset_peaks(device)

    def backward_begins(self) -> None:
        self._growing.append(self._peak() - self._made)
        if self._saved is None:  # of several passes the first: before it there are no gradients
            self._saved = self._current() - self._made

    def optimizer_begins(self) -> None:
        self._growing.append(self._peak() - self._made)
        self._at_begin = self._current()
        self._settled = max(self._settled, self._at_begin - self._made)

    def optimizer_ends(self) -> None:
        self._peak()
        self._made += max(0, self._current() - self._at_begin)

    def end(self) -> None:
        self._growing.append(self._peak() - self._made)

    def trial(self, batch_size: int, budget_bytes: int) -> Trial:
        peak = self._reserved + self._late()
        return Trial(
            batch_size,
            fits=peak <= budget_bytes,
            peak_bytes=peak,
            growing_bytes=max(self._growing) + self._made,
            saved_bytes=self._saved + self._made if self._saved is not None else None,
            slack_bytes=max(0, self._reserved - self._allocated),
            floor_bytes=self._floor() + self._made,
            settled_bytes=self._settled + self._made,
        )

    def _floor(self) -> int:
        """In tensors before the step. If nothing was added to it by backward, gradients were in it; at most half was."""
        return self._before if self._settled > self._before * 1.1 else self._before // 2

    def _late(self) -> int:
        """By how much the next step's peak will be above this one's, because the optimizer's state is there."""
        return max(0, max(self._growing) + self._made - self._allocated)

    def _current(self) -> int:
        return self._framework.figures(self._device).allocated_bytes or 0

    def _peak(self) -> int:
        """In tensors, since the last call."""
        figures = self._framework.figures(self._device)
        self._framework.reset_peaks(self._device)
        self._reserved = max(self._reserved, figures.peak_reserved_bytes or 0)
        self._allocated = max(self._allocated, figures.peak_allocated_bytes or 0)
        return figures.peak_allocated_bytes or 0

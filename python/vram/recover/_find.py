"""find_batch_size: finds the largest batch size of a training step, by a few real steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vram._arguments import MAX_INT32, require_integers
from vram._error import VramError
from vram._frameworks._training import Training, training_framework
from vram._sizes import format_size, parse_limit
from vram._texts import tr, tr_later
from vram.monitoring import _peaks
from vram.monitoring._peaks import PeakOf
from vram.recover._fit import Trial, next_size
from vram.recover._oom import attempt, free
from vram.recover._randomness import Randomness
from vram.recover._votes import WORKED, Votes, refuse_unknown_ranks

if TYPE_CHECKING:
    from vram.dry._batch import BatchSearch

_MAX_TRIALS = 8
_UNKNOWN = -1  # of what may be unknown, on its way to other ranks
_COMMUNICATES = tr_later(
    "the trial communicates with other ranks: if one of them ran out of memory, the others "
    "would wait for it. Let it run within no_sync() of DistributedDataParallel made with "
    "broadcast_buffers=False, or on the module within it: that takes as much memory once the "
    "buckets are there. What communicates within forward (FullyShardedDataParallel) can't be "
    "searched"
)


@dataclass(frozen=True)
class BatchSize:
    """The result of ``vram.find_batch_size``. Bytes are those of one device. Immutable: any thread may use it.

    >>> import vram
    >>> vram.BatchSize(batch_size=96, budget_bytes=1 << 30, peak_bytes=1 << 29, trials=(), reason="").batch_size
    96
    """

    batch_size: int
    budget_bytes: int
    peak_bytes: int  # measured at that size: what the allocator held at most
    trials: tuple[Trial, ...]  # in the order in which they were run
    reason: str  # this size and no larger one

    def __str__(self) -> str:
        count = len(self.trials)
        text = (
            tr("batch size {}: {} of {}, in {} trial; {}")
            if count == 1
            else tr("batch size {}: {} of {}, in {} trials; {}")
        )
        return text.format(
            self.batch_size, format_size(self.peak_bytes), format_size(self.budget_bytes), count, self.reason
        )


def find_batch_size(
    trial: Callable[[int], object],
    *,
    budget: int | str | None = None,
    multiple_of: int = 8,
    start: int | None = None,
    max_batch_size: int | None = None,
    max_trials: int | None = None,
    device: int | None = None,
    group: Any = None,
    dry: bool = False,
    gpu: str | None = None,
) -> BatchSize:  # size: most of it is its documentation
    """Find the largest batch size whose training step fits, with about three real steps: two small ones and the result.

    ``trial(batch_size)`` runs one full training step (forward, backward, optimizer) on a batch of that size, the
    longest samples first. It trains: search before the training, or restore the model and the optimizer afterwards.
    Memory that is already in use (model, optimizer state, other tensors) counts. If memory is linear in the batch
    size, as usual, this takes three trials, sometimes four, and none runs out of memory. Otherwise more follow, up to
    `max_trials`. The result was run, within the budget, on all ranks of the group. Random generators are restored.
    Call it from one thread.

    Args:
        trial: Runs one training step.
        budget: The most memory that this process may hold on the device, "20GiB" or a number of bytes. None: what it holds
            and what is free now, within ``torch.cuda.set_per_process_memory_fraction()`` and ``vram.enable(device_limit=...)``.
        multiple_of: The result is a multiple of this, unless only less fits.
        start: The first size to try, a small one. None: `multiple_of`.
        max_batch_size: The largest size to try. None: no limit.
        max_trials: The most steps to run. None: 8; or 32 dry runs.
        device: The device's number. None: the current device.
        group: The process group of ranks that search together and get the same result; the trial must not communicate.
            False: this rank searches by itself. Required if there are several ranks.
        dry: Search with dry runs (vram.predict()), without a GPU. The trial then makes the model and the optimizer itself, and steps at
            least twice. The result fits by DryRun.fits; the next multiple, or a size at most 1 % larger, does not, nor one 2 % larger.
        gpu: For dry runs: the name of a GPU, or the memory that it is sold with ("24GiB"). None: "H200".

    Raises:
        torch.OutOfMemoryError: Not even one sample fits.
        ValueError: `budget` is not a size, or a number is out of range.
        VramError: There is no GPU, another rank failed, or the trial communicates. Errors of the trial propagate.

    >>> import torch, vram
    >>> vram.find_batch_size(lambda batch_size: None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    vram.VramError: a batch size is found by measuring steps on a GPU...
    """
    require_integers(1, multiple_of=multiple_of, start=start, max_batch_size=max_batch_size, max_trials=max_trials)
    require_integers(0, MAX_INT32, device=device)
    limit = None if budget is None else parse_limit(budget)
    used = training_framework()
    if dry:
        return _found_by_dry_runs(used, trial, limit, gpu or "H200", multiple_of, start, max_batch_size, max_trials)
    if gpu is not None:
        raise ValueError(tr("gpu is for dry runs; add dry=True, or leave it out to use the GPU of this machine"))
    refuse_unknown_ranks(group, "vram.find_batch_size()")
    max_trials = max_trials or _MAX_TRIALS
    bounds = [start or 0, max_batch_size or 0, multiple_of, max_trials]
    search = _begun(used, trial, limit, device, Votes(group), bounds)
    multiple_of = _run_until_known(used, search, multiple_of, start, max_batch_size, max_trials)
    return search.result(multiple_of, max_batch_size)


def _run_until_known(
    used: Training,
    search: _Search | BatchSearch,
    multiple_of: int,
    start: int | None,
    max_batch_size: int | None,
    max_trials: int,
) -> int:
    """Run trials until the result is known, or there are too many. Return the number of which the result is a multiple."""
    randomness = Randomness(used)
    first = min(start or multiple_of, max_batch_size or sys.maxsize)
    first = first // multiple_of * multiple_of or first
    search.run(first)
    while not search.best and first > 1:
        first = first // 8 or 1
        first = first // multiple_of * multiple_of or first
        if first < multiple_of:  # then any size will do
            multiple_of = 1
        search.run(first)
    while len(search.trials) < max_trials and (size := search.next_size(multiple_of, max_batch_size)) is not None:
        search.run(size)
    randomness.restore()
    return multiple_of


def _found_by_dry_runs(
    used: Training,
    trial: Callable[[int], object],
    limit: int | None,
    gpu: str,
    multiple_of: int,
    start: int | None,
    max_batch_size: int | None,
    max_trials: int | None,
) -> BatchSize:
    from vram.dry._batch import MAX_RUNS, BatchSearch

    search = BatchSearch(trial, gpu, limit)
    multiple_of = _run_until_known(used, search, multiple_of, start, max_batch_size, max_trials or MAX_RUNS)
    best = search.best
    if best is None:
        raise used.out_of_memory(search.failure())
    reason = _reason_of_dry_runs(search.trials, search.next_size(multiple_of, max_batch_size), max_batch_size)
    return BatchSize(best.batch_size, search.budget_bytes, best.peak_bytes or 0, tuple(search.trials), reason)


def _reason_of_dry_runs(trials: list[Trial], size: int | None, max_batch_size: int | None) -> str:
    if size is not None:
        return tr("max_trials ended the search; a batch of {} would have been next").format(size)
    best = max(each.batch_size for each in trials if each.fits)
    over = [each for each in trials if each.batch_size > best]  # none of them fits
    if not over:
        return tr("no more than {} was asked for").format(max_batch_size)
    nearest = min(over, key=lambda each: each.batch_size)
    if nearest.peak_bytes is None:
        return tr("a batch of {} runs out of memory at the limit that the program sets").format(nearest.batch_size)
    return tr("a batch of {} needs {} and a margin for the error of the prediction").format(
        nearest.batch_size, format_size(nearest.peak_bytes)
    )


def _begun(
    used: Training,
    trial: Callable[[int], object],
    limit: int | None,
    device: int | None,
    votes: Votes,
    asked: list[int],
) -> _Search:
    """Before the first trial. VramError: no GPU; ranks that were not asked for the same."""
    with votes.reporting():
        number = device if device is not None else used.current_device()
        if number is None:
            raise VramError(
                tr(
                    "a batch size is found by measuring steps on a GPU, and PyTorch uses none here; put the "
                    "model on one first"
                )
            )
        free(used)
        held = used.figures(number).reserved_bytes or 0
        budget_bytes = limit if limit is not None else held + used.free_bytes(number)
    votes.worst(WORKED)
    if any(other != asked for other in votes.all(asked)):
        raise VramError(
            tr(
                "start, max_batch_size, multiple_of and max_trials must be the same on all ranks; here they are {}"
            ).format(asked)
        )
    return _Search(used, number, trial, budget_bytes, votes)


class _Search:
    """The steps run so far, on all ranks the same sizes."""

    def __init__(
        self, framework: Training, device: int, step: Callable[[int], object], budget_bytes: int, votes: Votes
    ) -> None:
        self.trials: list[Trial] = []  # this rank's; one fits only if it fits on all
        self._votes = votes
        self._ranks = [(budget, list[Trial]()) for (budget,) in votes.all([budget_bytes])]
        self._framework = framework
        self._device = device
        self._step = step
        self._budget_bytes = budget_bytes
        self._failures: list[str] = []

    @property
    def best(self) -> Trial | None:
        return max((t for t in self.trials if t.fits), key=lambda trial: trial.batch_size, default=None)

    def next_size(self, multiple_of: int, max_batch_size: int | None) -> int | None:
        """The least that any rank would try; None: some rank has no more to try."""
        sizes = [next_size(trials, budget, multiple_of, max_batch_size) for budget, trials in self._ranks]
        return None if None in sizes else min(size for size in sizes if size is not None)

    def run(self, batch_size: int) -> None:
        with self._votes.reporting():
            mine = self._measured(batch_size)
        self._votes.worst(WORKED)
        everybody = [_decoded(batch_size, values) for values in self._votes.all(_encoded(mine))]
        fits = all(trial.fits for trial in everybody)
        for (_, trials), trial in zip(self._ranks, everybody):
            trials.append(replace(trial, fits=fits))
        self.trials.append(replace(mine, fits=fits))

    def _measured(self, batch_size: int) -> Trial:
        phases = _Phases(self._framework, self._device)
        try:
            with ExitStack() as stack:
                stack.enter_context(self._framework.backward_passes(phases.backward_begins))
                stack.enter_context(self._framework.optimizer_steps(phases.optimizer_begins, phases.optimizer_ends))
                if not self._votes.alone and not self.best:  # then it is known that it does not
                    stack.enter_context(self._framework.silent(tr(_COMMUNICATES)))
                outcome = attempt(self._framework, lambda: self._step(batch_size))
            self._framework.synchronize(self._device)
        finally:
            phases.end()
        free(self._framework)
        if outcome.failure is not None:
            self._failures.append(f"{batch_size}: {outcome.failure}")
            return Trial(batch_size, fits=False)
        return phases.trial(batch_size, self._budget_bytes)

    def result(self, multiple_of: int, max_batch_size: int | None) -> BatchSize:
        best = self.best
        if best is None or best.peak_bytes is None:
            tried = "; ".join(self._failures) or tr("all of them ran, but over the budget")
            raise self._framework.out_of_memory(
                tr("not even a batch of {} fits into {} bytes. Tried {}").format(
                    min(t.batch_size for t in self.trials), self._budget_bytes, tried
                )
            )
        return BatchSize(
            best.batch_size,
            self._budget_bytes,
            best.peak_bytes,
            tuple(self.trials),
            self._reason(best, multiple_of, max_batch_size),
        )

    def _reason(self, best: Trial, multiple_of: int, max_batch_size: int | None) -> str:
        if max_batch_size is not None and best.batch_size + multiple_of > max_batch_size:
            return tr("no more than {} was asked for").format(max_batch_size)
        over = [trial for trial in self.trials if not trial.fits]
        if over:
            nearest = min(over, key=lambda trial: trial.batch_size)
            if nearest.peak_bytes is None:
                return tr("a batch of {} ran out of memory").format(nearest.batch_size)
            return tr("a batch of {} needs {} bytes").format(nearest.batch_size, nearest.peak_bytes)
        return tr("by the line through the trials, more than 1 % more (or the next multiple) would not fit")


def _encoded(trial: Trial) -> list[int]:
    optional = [_UNKNOWN if value is None else value for value in (trial.peak_bytes, trial.saved_bytes)]
    return [trial.fits, *optional, trial.growing_bytes, trial.slack_bytes, trial.floor_bytes, trial.settled_bytes]


def _decoded(batch_size: int, values: list[int]) -> Trial:
    peak, saved = (None if value == _UNKNOWN else value for value in values[1:3])
    growing, slack, floor, settled = values[3:]
    return Trial(batch_size, bool(values[0]), peak, growing, saved, slack, floor, settled)


class _Phases:
    """Peaks of one step: of forward, of backward, of the optimizer. Called by its hooks; end() ends it."""

    def __init__(self, framework: Training, device: int) -> None:
        self._framework = framework
        self._device = device
        self._growing: list[int] = []  # peaks outside optimizers, less the state that had been made until then
        self._made = 0  # bytes of optimizer state that this step made: the next step has them from its beginning
        self._reserved = 0
        self._allocated = 0
        self._before, self._settled, self._at_begin = self._current(), 0, 0
        self._saved: int | None = None
        self._waiting = PeakOf()
        _peaks.begin(framework, device, self._waiting, reset=True)

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
        self._growing.append(self._taken() - self._made)

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
        peak = self._taken()
        self._waiting = PeakOf()
        _peaks.begin(self._framework, self._device, self._waiting, reset=True)
        return peak

    def _taken(self) -> int:
        _peaks.end(self._framework, self._device, self._waiting)
        self._reserved = max(self._reserved, self._waiting.reserved or 0)
        self._allocated = max(self._allocated, self._waiting.allocated or 0)
        return self._waiting.allocated or 0

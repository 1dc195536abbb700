"""The largest batch that fits a GPU, by dry runs: two small ones, a line through them, and runs that confirm what it says."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import takewhile

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr
from vram.dry._dry_run import DryRun, dry_run
from vram.dry._gpu import find_gpu
from vram.dry._repeat import STEPS, Program
from vram.dry._results import DryRunFits, fits_on
from vram.recover._fit import Trial

_FARTHEST = 8  # times the largest size that was run: no farther is a line trusted
_CLOSE, _MANY = 0.01, 8  # after so many runs, this share of the batch is near enough
_DOWN = 0.005  # of the batch: so much less is run after a first size that does not fit
_NARROW = 0.05  # of the batch: as close, the line through the largest that fits and the least that does not says little
_SMALL_STEP = 0.15  # a share of the batch: after such a step that fits, the next one is three times as large
_FARTHER = 1.02  # times the result: that it does not fit is confirmed
MAX_RUNS = 32


class BatchSearch:
    """Dry runs of a program with one argument, the batch size."""

    def __init__(self, trial: Callable[[int], object], gpu: str, budget_bytes: int | None) -> None:
        self._trial = trial
        self._name = gpu
        total_bytes = find_gpu(gpu).total_bytes
        self.budget_bytes = total_bytes if budget_bytes is None else min(budget_bytes, total_bytes)
        self.trials: list[Trial] = []
        self._error = 1.0  # of the least memory of the last run, as a share; none yet
        self._smallest: DryRun | None = None  # of those that do not fit

    @property
    def best(self) -> Trial | None:
        """The largest that fits."""
        return max((t for t in self.trials if t.fits), key=lambda trial: trial.batch_size, default=None)

    def run(self, batch_size: int) -> Trial:
        run = dry_run(self._name)
        try:
            Program(lambda: self._trial(batch_size), steps=STEPS).run_in(run)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":  # a limit that the program sets
                raise
            trial = Trial(batch_size, fits=False)
        else:
            fits = run.fits
            self.budget_bytes = min(self.budget_bytes, fits.total_bytes)  # the program may let itself have less
            self._error = run.relative_error
            if self.budget_bytes < fits.total_bytes:
                fits = run.fits_within(self.budget_bytes, self._error)
            trial = Trial(
                batch_size,
                fits=bool(fits),
                peak_bytes=fits.needed_bytes,
                growing_bytes=run.peak_outside_optimizer_bytes,
                slack_bytes=fits.needed_bytes - run.peak.requested_bytes,
            )
        self.trials.append(trial)
        if not trial.fits and batch_size <= min(t.batch_size for t in self.trials):
            self._smallest = run
        return trial

    def _fits(self, needed_bytes: int) -> DryRunFits:
        return fits_on(self.budget_bytes, needed_bytes, self._error)

    def next_size(self, multiple_of: int, max_batch_size: int | None) -> int | None:
        """Return the size to run next; None: the largest is known.

        While everything fits, a line through the two largest sizes says where to go. Once a size does not fit, the largest is between it and
        the largest that does: on the line through both at first, and at last in the middle, because memory is not exactly a line. A larger
        batch may even fit where a smaller one does not, so one that is 2 % larger than the result is run, too.
        """
        best = self.best
        if best is None:
            return None
        larger = (t for t in self.trials if t.batch_size > best.batch_size)  # none of them fits
        least = min(larger, key=lambda trial: trial.batch_size, default=None)
        above = best.batch_size // multiple_of * multiple_of + multiple_of
        if max_batch_size is not None and above > max_batch_size:
            return None
        if least is None:
            guess = self._beyond(max_batch_size)
        else:
            is_close = least.batch_size - best.batch_size <= _CLOSE * least.batch_size
            if above >= least.batch_size or (is_close and len(self.trials) >= _MANY):
                return self._farther(best, multiple_of, max_batch_size)
            guess = min(self._between(best, least), least.batch_size - 1)
        return max(above, guess // multiple_of * multiple_of)

    def _farther(self, best: Trial, multiple_of: int, max_batch_size: int | None) -> int | None:
        """Return the size that is 2 % larger than the largest that fits; None: it was run, or is more than the largest allowed."""
        units = math.ceil(best.batch_size * _FARTHER / multiple_of)
        size = max(units, best.batch_size // multiple_of + 1) * multiple_of
        is_allowed = max_batch_size is None or size <= max_batch_size
        return size if is_allowed and all(size != trial.batch_size for trial in self.trials) else None

    def _beyond(self, max_batch_size: int | None) -> int:
        """Return a larger size than all that were run, which fit.

        Raises:
            VramError: Memory does not grow with the batch, and no batch is the largest that is allowed.
        """
        most = sys.maxsize if max_batch_size is None else max_batch_size
        sizes = sorted(self.trials, key=lambda trial: trial.batch_size)
        if len(sizes) == 1:
            return min(2 * sizes[0].batch_size, most)
        low, high = sizes[-2:]
        farthest = min(_FARTHEST * high.batch_size, most)
        if high.growing_bytes <= low.growing_bytes:
            if max_batch_size is not None or high.batch_size < _FARTHEST * sizes[0].batch_size:
                return farthest
            raise VramError(
                tr(
                    "batches of {} and {} need the same memory ({} requested outside of the optimizer), so "
                    "no batch is the largest; use the argument of the trial, or state max_batch_size"
                ).format(low.batch_size, high.batch_size, format_size(high.growing_bytes))
            )
        slope = (high.growing_bytes - low.growing_bytes) / (high.batch_size - low.batch_size)
        room = self._most_needed() - high.slack_bytes - high.growing_bytes
        guess = int(high.batch_size + room / slope)
        step = high.batch_size - low.batch_size
        if step <= _SMALL_STEP * high.batch_size:  # the line was too steep there before
            guess = max(guess, high.batch_size + 3 * step)
        return min(guess, farthest)

    def _between(self, best: Trial, least: Trial) -> int:
        """Return a size between the largest that fits and the least above it that does not.

        Where the memory of a size is above what its line says, that of a few smaller ones often is, too. So after each size that does not fit,
        it goes down by twice as much as before, to the middle if that is near. And where the memory grows faster than the batch, or in steps,
        the line is below the largest size each time. So after two sizes that fit, it goes up by a quarter at least.
        """
        failed = len([*takewhile(lambda trial: not trial.fits, reversed(self.trials))])
        gap = least.batch_size - best.batch_size
        middle = best.batch_size + gap // 2
        is_narrow = gap <= _NARROW * least.batch_size
        if least.peak_bytes is None or best.peak_bytes is None or least.peak_bytes == best.peak_bytes:
            return middle
        if is_narrow and not failed:
            return middle
        share = (self._most_needed() - best.peak_bytes) / (least.peak_bytes - best.peak_bytes)
        on_line = best.batch_size + int(share * gap)
        down = int(least.batch_size * _DOWN * 2 ** (failed - 1)) if failed else 1
        guess = min(on_line, least.batch_size - down)
        if is_narrow:
            guess = max(guess, middle)
        elif all(trial.fits for trial in self.trials[-2:]):
            guess = max(guess, best.batch_size + gap // 4)
        return guess if guess > best.batch_size else middle

    def _most_needed(self) -> int:
        """The most bytes with which a program fits."""
        low, high = 0, self.budget_bytes
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._fits(middle) else (low, middle)
        return low

    def failure(self) -> str:
        """Return why nothing fits, with what holds the memory."""
        assert self._smallest is not None
        trial = min(self.trials, key=lambda each: each.batch_size)
        if trial.peak_bytes is None:
            needs = tr("it runs out of memory at the limit that the program sets")
        else:
            needs = tr("it needs {}, and a margin for the error of the prediction, of {}").format(
                format_size(trial.peak_bytes), format_size(self.budget_bytes)
            )
        if not self._smallest.has_requests:
            return tr("not even a batch of {} fits: {}").format(trial.batch_size, needs)
        parts = ", ".join(
            f"{each.name} ({each.category}) {format_size(each.requested_bytes)}" for each in self._smallest.why(3)
        )
        categories: dict[str, int] = {}
        for of_module in self._smallest.by_module().values():
            for category, size_bytes in of_module.items():
                categories[category] = categories.get(category, 0) + size_bytes
        if not categories:  # the first request was refused
            return tr("not even a batch of {} fits: {}").format(trial.batch_size, needs)
        largest = max(categories, key=lambda category: categories[category])
        return tr("not even a batch of {} fits: {}. Most of it is {} ({}); the largest parts are {}").format(
            trial.batch_size, needs, largest, format_size(categories[largest]), parts
        )

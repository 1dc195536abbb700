"""The largest batch that fits a GPU, by dry runs: two small ones, a line through them, and runs that confirm what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from vram._error import VramError
from vram._sizes import format_size
from vram.dry._dry_run import DryRun, dry_run
from vram.dry._gpu import find_gpu
from vram.dry._repeat import Program
from vram.dry._results import DryRunFits, fits_on
from vram.recover._fit import Trial


class BatchSearch:
    """Dry runs of a program with one argument, the batch size."""

    def __init__(self, trial: Callable[[int], object], gpu: str, budget_bytes: int | None) -> None:
        self._trial = trial
        self._gpu = find_gpu(gpu)
        if budget_bytes is not None:
            self._gpu = replace(self._gpu, total_bytes=min(budget_bytes, self._gpu.total_bytes))
        self._name = gpu
        self.budget_bytes = self._gpu.total_bytes
        self.trials: list[Trial] = []
        self._smallest: DryRun | None = None  # of those that do not fit

    @property
    def best(self) -> Trial | None:
        """The largest that fits."""
        return max((t for t in self.trials if t.fits), key=lambda trial: trial.batch_size, default=None)

    def run(self, batch_size: int) -> Trial:
        run = Program(lambda: self._trial(batch_size), steps=2).run_in(dry_run(self._name))
        needed = run.fits.needed_bytes
        trial = Trial(
            batch_size,
            fits=bool(self._fits(needed)),
            peak_bytes=needed,
            growing_bytes=run.peak.requested_bytes,
        )
        self.trials.append(trial)
        if not trial.fits and batch_size <= min(t.batch_size for t in self.trials):
            self._smallest = run
        return trial

    def _fits(self, needed_bytes: int) -> DryRunFits:
        return fits_on(self._gpu, needed_bytes)

    def next_size(self, multiple_of: int, max_batch_size: int | None) -> int | None:
        """Return the size to run next: where the line says that the largest is, or the one behind it; None: it is found.

        A size that the runs contradict is replaced by the middle between the largest that fits and the smallest that does not.
        """
        best = self.best
        if best is None:
            return None
        least = min((t.batch_size for t in self.trials if not t.fits), default=None)
        above = best.batch_size // multiple_of * multiple_of + multiple_of
        if (least is not None and above >= least) or (max_batch_size is not None and above > max_batch_size):
            return None
        if len(self.trials) == 1:
            return min(2 * best.batch_size, max_batch_size or 2 * best.batch_size)
        guess = max(above, self._on_line() // multiple_of * multiple_of)
        if guess in {t.batch_size for t in self.trials} or (least is not None and guess >= least):
            guess = max(above, (best.batch_size + (least or 2 * guess)) // 2 // multiple_of * multiple_of)
        return (
            guess
            if max_batch_size is None
            else min(guess, max_batch_size // multiple_of * multiple_of or max_batch_size)
        )

    def _on_line(self) -> int:
        """Return the largest size that fits by the two largest runs, whose requested bytes are a line.

        Raises:
            VramError: Memory does not grow with the batch.
        """
        low, high = sorted(self.trials, key=lambda trial: trial.batch_size)[-2:]
        if high.growing_bytes <= low.growing_bytes:
            raise VramError(
                f"batches of {low.batch_size} and {high.batch_size} need the same memory ({format_size(high.growing_bytes)} requested), so no "
                "batch is the largest; use the argument of the trial, or state max_batch_size"
            )
        slope = (high.growing_bytes - low.growing_bytes) / (high.batch_size - low.batch_size)
        return int(high.batch_size + (self._most_needed() - (high.peak_bytes or 0)) / slope)

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
        parts = ", ".join(
            f"{each.name} ({each.category}) {format_size(each.requested_bytes)}" for each in self._smallest.why(3)
        )
        categories: dict[str, int] = {}
        for of_module in self._smallest.by_module().values():
            for category, size_bytes in of_module.items():
                categories[category] = categories.get(category, 0) + size_bytes
        largest = max(categories, key=lambda category: categories[category])
        return (
            f"not even a batch of {trial.batch_size} fits: it needs {format_size(trial.peak_bytes or 0)}, and a margin for the error of the "
            f"prediction, of {format_size(self.budget_bytes)}. Most of it is {largest} ({format_size(categories[largest])}); the largest parts "
            f"are {parts}"
        )

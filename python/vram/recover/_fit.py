"""From measured steps of a few batch sizes to the largest batch that fits: lines through peaks, on the safe side.

Two things peak in a step. What forward and backward need grows with the batch; what the optimizer's step needs does not.
Both are measured apart, so that a large optimizer does not hide how the rest grows. Bytes in tensors are exact; what the
allocator holds beyond them (its slack: segments are rounded up) is not, so the line goes through the former.
"""

from __future__ import annotations

from dataclasses import dataclass

_MARGIN = 0.01  # of the batch: what the line may be wrong by


@dataclass(frozen=True)
class Trial:
    """One real step at one batch size. In bytes, on one device; a peak is None where the step ran out of memory.

    >>> import vram
    >>> vram.Trial(batch_size=8, fits=False).peak_bytes is None
    True
    """

    batch_size: int
    fits: bool  # ran through, within the budget
    peak_bytes: int | None = None  # held by the allocator at most
    growing_bytes: int = 0  # in tensors at most, outside the optimizer's step, as in a step that finds its state made
    slack_bytes: int = 0  # held by the allocator beyond tensors, at the peak
    floor_bytes: int = 0  # in tensors before the step, with the optimizer's state, surely without gradients
    settled_bytes: int = 0  # in tensors when the optimizer's step begins: what is there whatever the batch


def next_size(trials: list[Trial], budget_bytes: int, multiple_of: int, largest: int | None) -> int | None:
    """The batch size to try, or None: the best that fits was tried already (or none does)."""
    best = max((trial for trial in trials if trial.fits), key=lambda trial: trial.batch_size, default=None)
    if best is None:
        return None
    guess = _guess(trials, best, budget_bytes)
    failures = [trial for trial in trials if not trial.fits]
    if failures:
        guess = _below(guess, best, failures)
    if largest is not None:
        guess = min(guess, largest)
    size = int(guess) // multiple_of * multiple_of
    proven = len(trials) >= 3 and best.batch_size >= 0.98 * guess  # not worth another step
    return size if size > best.batch_size and not proven else None


def _guess(trials: list[Trial], best: Trial, budget_bytes: int) -> float:
    """The largest batch by what is known, a little less where a line was drawn to it."""
    measured = sorted((t for t in trials if t.peak_bytes is not None), key=lambda trial: trial.batch_size)
    room = budget_bytes - max(trial.slack_bytes for trial in measured[-2:])
    low, high = measured[-2:] if len(measured) > 1 else (best, best)
    slope = (high.growing_bytes - low.growing_bytes) / max(1, high.batch_size - low.batch_size)
    if slope <= 0 or (high.fits and _hides_growth(low)):
        return _surely(best, room)
    return (1 - _MARGIN) * (high.batch_size + (room - high.growing_bytes) / slope)


def _hides_growth(trial: Trial) -> bool:
    """Its peak was at the end of backward, when all gradients were there: what came before may grow faster."""
    return trial.growing_bytes - trial.settled_bytes < (trial.growing_bytes - trial.floor_bytes) * 0.5


def _surely(trial: Trial, room: int) -> float:
    """Fits if needs grow along lines from at least the floor. Often far from the largest, never beyond it."""
    grown = max(1, trial.growing_bytes - trial.floor_bytes)
    return (1 - _MARGIN) * trial.batch_size * max(1.0, (room - trial.floor_bytes) / grown)


def _below(guess: float, best: Trial, failures: list[Trial]) -> float:
    """Below the least that failed: by a little first, then in the middle."""
    least = min(failures, key=lambda trial: trial.batch_size)
    if least.peak_bytes is not None and len(failures) == 1:  # it was measured, and the line goes through it
        return min(guess, least.batch_size - 1)
    middle = (best.batch_size + least.batch_size) / 2
    return min(guess, max(middle, (1 - 0.03 * len(failures)) * least.batch_size), least.batch_size - 1)

"""The largest batch that fits, computed from the measured steps of a few batch sizes by lines through their peaks.

A step has two peaks. The memory of forward and backward grows with the batch; that of the optimizer's step does not. Both are
measured separately, so that a large optimizer does not hide the growth of the rest. Bytes in tensors are exact, while the
allocator's additional memory (its slack: segments are rounded up and have holes) is not. So the line goes through the bytes in
tensors, and slack is added to it.
"""

from __future__ import annotations

from dataclasses import dataclass

_MARGIN = 0.01  # of the batch: what the line may be wrong by
_MARGIN_STEEP = 0.005  # where the line is rather too steep than too flat
_ROUNDING = 0.01  # of what grows: slack up to there is taken to stay as it is
_FAR = 0.9  # of the batch, where one trial alone says how far


@dataclass(frozen=True)
class Trial:
    """One real step at one batch size, in bytes, on one device. A peak is None if the step ran out of memory.

    >>> import vram
    >>> vram.Trial(batch_size=8, fits=False).peak_bytes is None
    True
    """

    batch_size: int
    fits: bool  # ran through, within the budget
    peak_bytes: int | None = None  # held by the allocator at most, in a step that finds the optimizer's state made
    growing_bytes: int = 0  # in tensors at most, outside the optimizer's step, as in a step that finds its state made
    saved_bytes: int | None = None  # in tensors when backward begins, without gradients; None: not known
    slack_bytes: int = 0  # held by the allocator beyond tensors, at the peak
    floor_bytes: int = 0  # in tensors before the step, with the optimizer's state, surely without gradients
    settled_bytes: int = 0  # in tensors when the optimizer's step begins: what is there whatever the batch


def next_size(trials: list[Trial], budget_bytes: int, multiple_of: int, max_batch_size: int | None) -> int | None:
    """The batch size to try, or None: the best that fits was tried already (or none does)."""
    best = max((trial for trial in trials if trial.fits), key=lambda trial: trial.batch_size, default=None)
    if best is None:
        return None
    guess = _guess(trials, best, budget_bytes)
    failures = [trial for trial in trials if not trial.fits]
    if failures:
        guess = _below(guess, best, failures)
    if max_batch_size is not None:
        guess = min(guess, max_batch_size)
    size = int(guess) // multiple_of * multiple_of
    proven = len(trials) >= 3 and best.batch_size >= 0.99 * guess  # not worth another step
    return size if size > best.batch_size and not proven else None


def _guess(trials: list[Trial], best: Trial, budget_bytes: int) -> float:
    """The largest batch by what is known, a little less where a line was drawn to it."""
    measured = sorted((t for t in trials if t.peak_bytes is not None), key=lambda trial: trial.batch_size)
    low, high = measured[-2:] if len(measured) > 1 else (best, best)
    room = budget_bytes - max(low.slack_bytes, high.slack_bytes)
    slope = _slope(low, high) if high is not low else 0.0
    if slope > 0:
        margin = _MARGIN_STEEP if _ends_high(low) else _MARGIN
        return (1 - margin) * (high.batch_size + (room - high.growing_bytes) / (slope + _slack_slope(low, high)))
    reach = _exploring(best, room)
    far = reach > 4 * best.batch_size  # then slack that is not seen yet may be in the way, and a line to there is exact
    return reach * (_FAR if far else 1 - _MARGIN)


def _exploring(trial: Trial, room: int) -> float:
    """As far as one trial allows to go, so that a line to the next says something, and without running out of memory.

    What grows begins at the floor or above, so that a line from there is never too low. When backward begins, it needs
    all activations and something for itself: taken to be no more than they are. When it ends, all gradients and what is
    left of the activations.
    """
    surely = _reach(trial, trial.floor_bytes, trial.growing_bytes - trial.floor_bytes, room)
    if trial.saved_bytes is None:
        return surely
    saved = trial.saved_bytes - trial.floor_bytes
    begins = _reach(trial, trial.floor_bytes, 2 * saved, room)
    ends = _reach(trial, trial.settled_bytes, saved, room)
    return max(surely, min(begins, ends))


def _reach(trial: Trial, from_bytes: int, grown_bytes: int, room: int) -> float:
    """Where a line that begins there and grows by so much to the trial's batch meets the budget."""
    return trial.batch_size * max(1.0, (room - from_bytes) / max(1, grown_bytes))


def _slope(low: Trial, high: Trial) -> float:
    """Bytes that each further sample takes."""
    between = max(1, high.batch_size - low.batch_size)
    slope = (high.growing_bytes - low.growing_bytes) / between
    if high.saved_bytes is None or low.saved_bytes is None:
        return slope
    saved = (high.saved_bytes - low.saved_bytes) / between
    if not _ends_high(low):
        return max(slope, saved)
    # The lower one peaked where all gradients are, so that only the upper one shows what backward needs in its beginning:
    # the activations, and something for itself, in proportion.
    return max(slope, saved + (high.growing_bytes - high.saved_bytes) / high.batch_size)


def _slack_slope(low: Trial, high: Trial) -> float:
    """Bytes of slack that each further sample brings: holes grow with the blocks that leave them, rounding does not."""
    rounding = _ROUNDING * (high.growing_bytes - low.growing_bytes)
    return max(0.0, high.slack_bytes - low.slack_bytes - rounding) / max(1, high.batch_size - low.batch_size)


def _ends_high(trial: Trial) -> bool:
    """Whether its peak may have been at the end of backward, when all gradients were there."""
    return (
        trial.settled_bytes > trial.floor_bytes
        and trial.growing_bytes - trial.settled_bytes < (trial.growing_bytes - trial.floor_bytes) * 0.5
    )


def _below(guess: float, best: Trial, failures: list[Trial]) -> float:
    """Below the least that failed: by a little first, then in the middle."""
    least = min(failures, key=lambda trial: trial.batch_size)
    if least.peak_bytes is not None and len(failures) == 1:  # it was measured, and the line goes through it
        return min(guess, least.batch_size - 1)
    middle = (best.batch_size + least.batch_size) / 2
    return min(guess, max(middle, 0.97 * least.batch_size) if len(failures) == 1 else middle)

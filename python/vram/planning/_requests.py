"""What to ask the planner for when its predictions are not what is measured; without PyTorch.

The prediction of a compiled step can be off by gigabytes in either direction, but by about the same bytes for similar schedules. So the
planner is asked for the budget and what it predicted too much for the schedule that was measured closest to it, between a request that
fitted and one that did not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SLACK = 0.02  # of the budget: what may be left unused before the planner is asked for more
FIRST_SHARES = (1.0, 0.99)  # with which the whole model is compiled first
_LEAST_STEP = 0.02  # between two of the others
_RESOLUTION_SHIFT = 9  # of the budget: requests that are closer to each other are not told apart


@dataclass(frozen=True)
class Answer:
    """A schedule.

    Attributes:
        request_bytes: The budget for which the planner chose it.
        predicted_bytes: Its peak by the chain.
        peak_bytes: Its measured peak; None: it ran out of memory.
    """

    request_bytes: int
    predicted_bytes: int
    peak_bytes: int | None

    def fits(self, budget_bytes: int) -> bool:
        return self.peak_bytes is not None and self.peak_bytes <= budget_bytes

    def missed_bytes(self, budget_bytes: int) -> int:
        """Return how far the measured peak is from the budget."""
        assert self.peak_bytes is not None
        return abs(self.peak_bytes - budget_bytes)


def next_request(answers: Sequence[Answer], budget_bytes: int, least_bytes: int, most_bytes: int) -> int | None:
    """Return for how many bytes to ask the planner next; None: no schedule closer to the budget is expected.

    Args:
        answers: What was measured until now, for this or another budget.
        budget_bytes: What the measured peak may be.
        least_bytes: The least request that has a schedule, as far as it is known.
        most_bytes: The prediction for the schedule that the planner chooses without a budget.
    """
    fitting = [each for each in answers if each.fits(budget_bytes)]
    if any(each.missed_bytes(budget_bytes) < SLACK * budget_bytes for each in fitting):
        return None
    low = max((each.request_bytes for each in fitting), default=least_bytes - 1)
    # Between its prediction and its request, a schedule is the answer to each request.
    exceeding = [each for each in answers if not each.fits(budget_bytes) and each.predicted_bytes > low]
    high = min((each.predicted_bytes for each in exceeding), default=most_bytes + 1)
    if high <= low + 1 or (fitting and high - low <= budget_bytes >> _RESOLUTION_SHIFT):
        return None
    wanted = _wanted(answers, budget_bytes, high)
    has_one_side = len(answers) > 1 and answers[-1].fits(budget_bytes) == answers[-2].fits(budget_bytes)
    if fitting and exceeding and (has_one_side or not low < wanted < high):
        return (low + high) // 2
    return min(max(wanted, low + 1), high - 1)


def _wanted(answers: Sequence[Answer], budget_bytes: int, high: int) -> int:
    measured = [each for each in answers if each.peak_bytes is not None]
    if not measured:
        return high - (budget_bytes >> 4) if answers else budget_bytes
    closest = min(measured, key=lambda each: each.missed_bytes(budget_bytes))
    assert closest.peak_bytes is not None
    wanted = budget_bytes + closest.predicted_bytes - closest.peak_bytes
    if closest.fits(budget_bytes) and wanted <= closest.request_bytes:
        return closest.request_bytes + closest.missed_bytes(budget_bytes)
    return wanted


def next_share(peaks: dict[float, int | None], budget_bytes: int, after_bytes: int) -> float | None:
    """Return the ``activation_memory_budget`` with which to compile the whole model next; None: no other is expected to be better.

    Args:
        peaks: By those with which it was compiled, the measured peak; None: it ran out of memory. The first is 1, the second 0.99.
        budget_bytes: What the measured peak may be.
        after_bytes: What is allocated after the step, whatever it keeps.
    """
    fitting = {share: peak for share, peak in peaks.items() if peak is not None and peak <= budget_bytes}
    exceeding = min(share for share in peaks if share not in fitting)
    if fitting:
        return _share_between(max(fitting.items()), (exceeding, peaks[exceeding]), budget_bytes)
    peak = peaks[exceeding]
    if peak is None:
        return round(exceeding / 2, 2)
    if exceeding < min(FIRST_SHARES):
        return _share_below(sorted(peaks.items())[:2], budget_bytes)
    # 0.99 keeps less than 99 %, so the share is of what 1 keeps, if that was measured.
    full = peaks[1.0]
    kept_share, kept = (exceeding, peak) if full is None else (1.0, full)
    wanted = max(0, budget_bytes - after_bytes)
    return int(90 * kept_share * wanted / max(1, kept - after_bytes)) / 100


def _share_between(low: tuple[float, int], high: tuple[float, int | None], budget_bytes: int) -> float | None:
    (share, peak), (high_share, high_peak) = low, high
    aim = int((1 - SLACK / 2) * budget_bytes)
    if peak >= (1 - SLACK) * budget_bytes or share >= FIRST_SHARES[1]:
        return None
    part = 0.5 if high_peak is None else (aim - peak) / (high_peak - peak)
    found = int(100 * (share + part * (high_share - share))) / 100
    found = min(max(found, round(share + _LEAST_STEP, 2)), round(high_share - _LEAST_STEP, 2))
    return found if share < found < high_share else None


def _share_below(lowest: list[tuple[float, int | None]], budget_bytes: int) -> float | None:
    """Two shares exceed the budget: what they would reach if the peak fell as between them. It falls less and less."""
    (share, peak), (other_share, other) = lowest
    assert peak is not None
    if other is None:
        return round(share / 2, 2)
    if other <= peak:
        return round(share / 2, 2) if share > 0.5 else None
    found = share - (peak - budget_bytes) * (other_share - share) / (other - peak)
    return int(90 * found) / 100 if found > 0 else None

"""Whether a step's loss is, in parts, the whole batch's: compared by numbers, since no reading of code could say.

Losses: of the whole batch, without a graph, against those of the parts; where that is too much for memory, of runs of
neighbouring parts that overlap. Gradients: of one micro-batch, whole against split, before the first batch that is split;
of a single sample that they are in proportion to the loss.
Nothing is random meanwhile, so that dropout makes no difference; and nothing may go from one run to the next but buffers.

Both are done at the first batch of a step function that is split; the losses again after 1, 2, 4, 8 … of those, and
whenever what the loss is divided by (tokens that count, the sum of a mask) is not shared out as in the batches before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from vram._error import VramError
from vram._frameworks._training import Precision
from vram._texts import tr, tr_later
from vram.recover._job import Job, Part, run_part, share
from vram.recover._oom import attempt, free
from vram.recover._randomness import Randomness
from vram.recover._remembered import Shown

# What rounding may do, relative: to a loss; to one tensor's gradient; to it, in parts of all gradients.
_TOLERANCES = {
    Precision.DOUBLE: (1e-9, 1e-8, 1e-9),
    Precision.SINGLE: (2e-5, 1e-4, 1e-5),
    Precision.TF32: (1e-3, 5e-3, 1e-3),
    Precision.COARSE: (1e-2, 1e-1, 3e-2),
}
_ADVICE = tr_later(
    "The loss compares samples (contrastive losses, in-batch negatives, balance, statistics "
    "of the batch), or its mean is over something else than samples (pass weight=, the "
    "number of tokens that count, say; reduction='sum' for a sum). If the difference is "
    "meant, pass check=False"
)


def check_gradients(job: Job, shown: Shown, size: int) -> None:
    """Of the first `size` samples, split in two. VramError: they differ. Leaves no gradients."""
    middle = (size + 2) // 3
    cuts = [(0, middle), (middle, size)] if size > 1 else [(0, 1), (0, 1)]

    def run(start: int, stop: int, factor: float, backward: Callable[[Any], object]) -> None:
        if factor:
            job.buffers.restore()
            randomness.restore()
            with rehearsal.run():
                run_part(job, job.part(start, stop), factor, split=True, backward=backward)

    def compared(backward: Callable[[Any], object]) -> bool:
        run(0, size, 1.0, backward)
        whole = _norms(job)
        for (start, stop), factor in zip(cuts, factors):
            run(start, stop, -factor, backward)  # taken away from the whole: one set of gradients is enough
        left = _norms(job)
        lasting = job.gradients.lasting()
        job.gradients.drop()
        return _compare_norms(shown, whole, {key: left[key] for key in left if key in lasting}, size)

    with _undisturbed(job) as randomness:
        rehearsal = job.framework.rehearsal(job.buffers.tensors())
        weights = [job.weight(job.part(start, stop), stop - start) for start, stop in cuts]
        if not sum(weights):
            return
        factors = [1.0 if job.weigh is None and size > 1 else share(weight, sum(weights)) for weight in weights]
        # By the user's own backward, unless its gradients overflow (those of a gradient scaler, say).
        if compared(job.backward) or compared(lambda loss: loss.backward()):
            shown.gradients = min(size, 2)


def _norms(job: Job) -> dict[int, float]:
    return {key: _norm(gradient) for key, gradient in job.gradients.current().items()}


def _compare_norms(shown: Shown, whole: dict[int, float], left: dict[int, float], size: int) -> bool:
    """False: they say nothing. VramError: what is left of the whole is more than rounding."""
    _, relative, floor = _TOLERANCES[shown.precision]
    total = math.sqrt(sum(whole.get(key, 0.0) ** 2 for key in left))
    if not total or not math.isfinite(total):
        return False
    for key, rest in left.items():
        norm = whole.get(key, 0.0)  # 0: found on the way
        if not rest <= relative * norm + floor * total:
            raise VramError(
                tr("{} gradients that differ by {:.1e} (relative, of one tensor; {:.0e} is allowed). {}").format(
                    tr("split in two, the first {} samples give").format(size)
                    if size > 1
                    else tr("the loss of one sample, times a number, gives"),
                    rest / max(norm, 1e-30),
                    relative,
                    tr(_ADVICE),
                )
            )
    return True


def check_losses(job: Job, shown: Shown, parts: list[Part], size: int) -> None:
    """Of the parts that were run, if it is time. VramError: together they are not the whole's."""
    kinds = kinds_of([(part.weight, [float(divisor) for divisor in part.divisors]) for part in parts])
    still = None if shown.kinds is None or kinds is None else _narrowed(shown.kinds, kinds)
    due = shown.is_due
    shown.batches += 1
    if still is not None and not due:
        shown.kinds = still
        return
    # Rounding hides too much, or constants in place of random numbers: a mask that is drawn selects as much from each part.
    if (shown.precision == Precision.COARSE or job.drew) and kinds is not None and not all(kinds):
        raise VramError(
            tr(
                "what the loss is divided by is not shared out among the micro-batches as their weights "
                "(samples, if weight= says nothing else) are. {}"
            ).format(tr(_ADVICE))
        )
    with _undisturbed(job) as randomness:
        _Comparison(job, randomness, _TOLERANCES[shown.precision][0], parts).settle(size)
    shown.kinds = kinds


@contextmanager
def _undisturbed(job: Job) -> Iterator[Randomness]:
    """After it random numbers go on as if it had not been. VramError: step() failed, but not for memory."""
    randomness = Randomness(job.framework)
    try:
        yield randomness
    except Exception as error:
        if isinstance(error, VramError) or job.framework.is_out_of_memory(error):
            raise
        raise VramError(
            tr(
                "the whole batch did not fit, and step() failed when parts of it were compared ({}: {}). "
                "If it can't take so few samples, or is not to be called for a comparison, pass "
                "check=False"
            ).format(type(error).__name__, error)
        ) from error
    finally:
        randomness.restore()


def _norm(gradient: Any) -> float:
    if gradient is None:
        return 0.0
    return float((gradient.coalesce().values() if gradient.is_sparse else gradient).norm())


def kinds_of(parts: list[tuple[float, list[float]]]) -> list[set[str]] | None:
    """How each divisor is shared out: in proportion to the parts' weights, the same in all parts, or neither.

    None: the parts do not have the same divisors.
    """
    if len({len(divisors) for _, divisors in parts}) != 1:
        return None
    kinds: list[set[str]] = []
    for place in range(len(parts[0][1])):
        values = [divisors[place] for _, divisors in parts]
        ratios = [value / weight for value, (weight, _) in zip(values, parts)]
        kinds.append(({"shared"} if _all_equal(ratios) else set()) | ({"same"} if _all_equal(values) else set()))
    return kinds


def _all_equal(values: list[float]) -> bool:
    return max(values) - min(values) <= 1e-6 * max(map(abs, values))


def _narrowed(shown: list[set[str]], kinds: list[set[str]]) -> list[set[str]] | None:
    """What a divisor may be after both; None: not the same divisors, or not of the same kind."""
    both = [one & other for one, other in zip(shown, kinds)]
    return both if len(shown) == len(kinds) and all(both) else None


class _Comparison:
    """Of the losses of one batch's parts with those of runs of them."""

    def __init__(self, job: Job, randomness: Randomness, relative: float, parts: list[Part]) -> None:
        self._job = job
        self._relative = relative
        # What was drawn for them can't be drawn again for the whole.
        self._known = {} if job.drew else {(part.start, part.stop): float(part.loss) for part in parts}
        self._is_finite = all(math.isfinite(float(part.loss)) for part in parts)
        self._randomness = randomness
        self._rehearsal = job.framework.rehearsal(job.buffers.tensors())
        self._graph = False  # step() takes gradients itself, and needs a graph

    def settle(self, size: int) -> None:
        """VramError: they differ, or memory is not enough to see."""
        unit, length = size, -(-self._job.samples // size)  # of a run, in units
        while unit:
            try:
                if attempt(self._job.framework, partial(self._compare, unit, length)).failure is None:
                    return
                unit, length = (unit, (length + 1) // 2) if length > 2 else (unit // 2, 2)
            except VramError:
                raise
            except RuntimeError:
                if self._graph:
                    raise
                self._graph = True
            free(self._job.framework)
        raise VramError(
            tr(
                "the whole batch did not fit, and in parts it can't be compared with anything: not even "
                "two samples fit. If its loss is a mean over samples (or what weight= says), so that "
                "split it is the same, pass check=False"
            )
        )

    def _compare(self, unit: int, length: int) -> None:
        starts = list(range(0, self._job.samples, unit))
        ranges = list(zip(starts, [*starts[1:], self._job.samples]))
        for first in range(0, max(1, len(ranges) - 1), length - 1):
            self._compare_run(ranges[first : first + length])

    def _compare_run(self, ranges: list[tuple[int, int]]) -> None:
        """VramError: the mean (or sum) of the parts is not the whole's loss."""
        job = self._job
        weights = [job.weight(job.part(*part), part[1] - part[0]) for part in ranges]
        total = 1.0 if job.weigh is None else sum(weights)
        if not total:
            return
        shares = [(weight / total, part) for part, weight in zip(ranges, weights) if weight]
        draws = self._rehearsal.extremes if job.drew else self._rehearsal.extremes[:1]
        said = [self._compare_once(ranges, shares, draw) for draw in draws]
        if not any(said) and self._is_finite:
            raise VramError(
                tr(
                    "the whole batch did not fit, and its loss can't be compared with that of its parts: it "
                    "is no finite number when random operators give constants. If split it is the same, pass "
                    "check=False"
                )
            )

    def _compare_once(
        self, ranges: list[tuple[int, int]], shares: list[tuple[float, tuple[int, int]]], draw: float
    ) -> bool:
        """With such random numbers. False: the losses say nothing."""
        start, stop = ranges[0][0], ranges[-1][1]
        found = [(share, *self._loss(*part, draw)) for share, part in shares]
        parts = math.fsum(share * loss for share, loss, _ in found)
        whole, scale = self._loss(start, stop, draw)
        if not math.isfinite(whole) and not math.isfinite(parts):
            return False
        scale = max(scale, sum(share * size for share, _, size in found))
        if not abs(whole - parts) <= self._relative * scale:
            raise VramError(
                tr(
                    "the whole batch did not fit, and split it has another loss: {:.9g} for {} samples, "
                    "{:.9g} for the same in {} parts. {}"
                ).format(whole, stop - start, parts, len(ranges), tr(_ADVICE))
            )
        return True

    def _loss(self, start: int, stop: int, draw: float) -> tuple[float, float]:
        """Of these samples, and the size of its terms."""
        if (start, stop) in self._known and not self._graph:
            return self._known[start, stop], abs(self._known[start, stop])
        job = self._job
        job.buffers.restore()
        self._randomness.restore()
        with nullcontext() if self._graph else job.framework.no_grad(), self._rehearsal.run(draw) as mode:
            result = job.step(job.part(start, stop))
            loss = getattr(result, "loss", result)
            found = float(loss), mode.scale(loss)
        job.versions.require_unchanged("step()")
        return found

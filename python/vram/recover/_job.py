"""One call of micro_batches, and how one of its micro-batches is run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from vram._error import VramError
from vram._frameworks._training import Differentiating
from vram._texts import tr
from vram.recover._buffers import Buffers
from vram.recover._changed import Versions
from vram.recover._gradients import Gradients
from vram.recover._oom import Failure
from vram.recover._randomness import Randomness
from vram.recover._ranks import Ranks
from vram.recover._remembered import Remembered, Shown


@dataclass
class Part:
    """A micro-batch that was run."""

    start: int
    stop: int
    weight: float  # over which its loss is a mean; its samples where the loss is a sum
    loss: Any  # without graph; as step() gave it
    divisors: list[Any]  # see Differentiating.divisors
    left: dict[str, Any]  # see Buffers.left


@dataclass
class Job:
    """One call of micro_batches."""

    framework: Differentiating
    batch: Any
    samples: int
    step: Callable[[Any], Any]
    cut: Callable[[Any, int, int], Any]
    weigh: Callable[[Any, int], float] | None  # of a part, given its samples; None: the loss is a sum
    backward: Callable[[Any], object]
    buffers: Buffers
    gradients: Gradients
    ranks: Ranks
    remembered: Remembered
    models: list[Any]
    known: Shown  # of this step, whether it is compared or not
    is_compared: bool
    attempts: int = 0
    failures: list[tuple[int, Failure]] = field(default_factory=list)  # of this rank, with the size that failed
    freed_bytes: int = 0
    drew: bool = False  # the last attempt drew random numbers

    def __post_init__(self) -> None:
        self.randomness = Randomness(self.framework)
        self.versions = Versions(self.batch)
        # What is known of this step; None: the user accepts the difference.
        self.shown = self.known if self.is_compared and not self.buffers.norms else None

    def part(self, start: int, stop: int) -> Any:
        return self.batch if (start, stop) == (0, self.samples) else self.cut(self.batch, start, stop)

    def weight(self, part: Any, samples: int) -> float:
        """Of a part's loss in the whole's."""
        return 1.0 if self.weigh is None else self.weigh(part, samples)


def share(weight: float, total: float) -> float:
    if not total > 0:
        raise VramError(
            tr("the batch's weight must be more than 0 to take a mean over it; weight(batch) gave {}").format(total)
        )
    return weight / total


def run_part(
    job: Job, part: Any, factor: float, *, split: bool, backward: Callable[[Any], object] | None = None
) -> Part:
    """Forward, and backward of the loss times the factor."""
    job.gradients.begin_run()
    with ExitStack() as stack:
        # A step that calls backward itself must not lose earlier gradients.
        stack.enter_context(job.framework.accumulations(job.gradients.adopt))
        stack.enter_context(job.framework.zeroings(lambda tensors: job.gradients.refuse_to_zero(tensors, split)))
        with job.gradients.visible():
            loss = _loss_of(job.step(part))
        if split:
            job.versions.require_unchanged("step()")
        found, value = job.framework.divisors(loss) if split else [], loss.detach()
        if split and job.shown is not None and job.shown.is_due:
            job.shown.precision = max(job.shown.precision, job.framework.precision(loss))
        scaled = loss if factor == 1.0 else loss * factor
        del loss
        _backward(backward or job.backward, scaled, split)
    return Part(0, 0, 0.0, value, found, {})


def _backward(backward: Callable[[Any], object], loss: Any, split: bool) -> None:
    try:
        backward(loss)
    except RuntimeError as error:
        if split and "through the graph a second time" in str(error):
            raise VramError(
                tr(
                    "the whole batch did not fit, and it can't be split: what the loss is computed from has "
                    "a graph that was made outside step(), and backward can go through that once only. "
                    "Compute it in step(), or detach it"
                )
            ) from error
        raise


def _loss_of(result: Any) -> Any:
    """Alone: an output that has more in it than the loss is not held while backward runs."""
    loss = getattr(result, "loss", result)
    if not getattr(loss, "requires_grad", False):
        raise VramError(
            tr(
                "step() must return the loss, with its graph (or an object with .loss), and leave "
                "backward to vram.micro_batches; it returned {}"
            ).format(type(result).__name__)
        )
    return loss

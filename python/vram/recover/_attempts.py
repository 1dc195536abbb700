"""The attempts of one batch: all micro-batches of one size, then, if any rank failed, all of them in half the size.

What a failed attempt did is undone (gradients, random numbers, running statistics). So what stays in the end is, bit for
bit, what a run would have left that had begun with the size that worked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vram._error import VramError
from vram._frameworks._training import Training
from vram._sizes import format_size
from vram.recover import _check, _ranks
from vram.recover._batch_norm import RunningStatistics
from vram.recover._gradients import Gradients
from vram.recover._oom import Failure, attempt, free
from vram.recover._randomness import Randomness
from vram.recover._remembered import Remembered


@dataclass
class Job:
    """One call of micro_batches."""

    framework: Training
    batch: Any
    samples: int
    step: Callable[[Any], Any]
    cut: Callable[[Any, int, int], Any]
    weigh: Callable[[Any, int], float] | None  # of a part, given its samples; None: the loss is a sum
    backward: Callable[[Any], object]
    statistics: RunningStatistics
    gradients: Gradients
    randomness: Randomness
    ranks: _ranks.Ranks
    remembered: Remembered
    models: list[Any]
    check: bool
    attempts: int = 0
    failures: list[tuple[int, Failure]] = field(default_factory=list)  # of this rank, with the size that failed
    freed_bytes: int = 0


def until_it_fits(job: Job, size: int) -> tuple[int, Any]:
    """The size that worked and the batch's loss. Raises when nothing smaller is left."""
    while True:
        outcome, largest = _voted(job, size)
        if outcome is not None:
            return size, outcome
        if largest <= 1:
            raise _nothing_smaller(job)
        size = min(job.samples, job.remembered.failed(largest))


def _voted(job: Job, size: int) -> tuple[Any, int]:
    """The loss if all ranks came through; else None, and everything is undone. With it, the largest rank's size."""
    job.attempts += 1
    try:
        outcome = attempt(job.framework, lambda: _run(job, size))
        if outcome.stepped:
            raise _stepped(job, outcome.failure)
    except BaseException:
        job.ranks.worst(_ranks.BROKEN, size)  # so that the others do not wait for this one
        raise
    status = _ranks.WORKED if outcome.failure is None else _ranks.OUT_OF_MEMORY
    worst, largest = job.ranks.worst(status, size)
    if worst == _ranks.BROKEN:
        raise VramError("another rank failed by an error that is not about memory; its own output says which")
    if outcome.failure is not None:
        job.failures.append((size, outcome.failure))
    if worst == _ranks.WORKED and job.ranks.complete(job.gradients.has, lambda make: _made(job, size, make)):
        return outcome.value, largest
    job.gradients.drop()
    job.randomness.restore()
    job.freed_bytes += free(job.framework)
    return None, largest


def _made(job: Job, size: int, make: Callable[[], None]) -> bool:
    failure = attempt(job.framework, make).failure
    if failure is not None:
        job.failures.append((size, failure))
    return failure is None


def _run(job: Job, size: int) -> Any:
    """Forward and backward of the whole batch. Its loss."""
    if job.check and not job.remembered.checked and size >= _check.SAMPLES:
        _check.check_split(lambda part: _run_parts(job, _check.SAMPLES, part), job.gradients, job.models)
        job.remembered.checked = True
        job.randomness.restore()
    return _run_parts(job, job.samples, size)


def _run_parts(job: Job, samples: int, size: int) -> Any:
    """Of the first samples of the batch."""
    job.statistics.begin(-(-samples // size))
    whole = job.batch if samples == job.samples else job.cut(job.batch, 0, samples)
    if size >= samples:
        return _run_part(job, whole, 1.0)
    total = job.weigh(whole, samples) if job.weigh is not None else None
    loss: Any = None
    for start in range(0, samples, size):
        stop = min(start + size, samples)
        part = job.cut(job.batch, start, stop)
        factor = 1.0 if total is None or job.weigh is None else _share(job.weigh(part, stop - start), total)
        if factor:  # a mean over nothing is not a number, and adds nothing
            of_part = _run_part(job, part, factor)
            loss = of_part if loss is None else loss + of_part
    return loss


def _share(weight: float, total: float) -> float:
    if not total > 0:
        raise VramError(f"the batch's weight must be more than 0 to take a mean over it; weight(batch) gave {total}")
    return weight / total


def _run_part(job: Job, part: Any, factor: float) -> Any:
    result = job.step(part)
    loss = getattr(result, "loss", result)
    if not getattr(loss, "requires_grad", False):
        raise VramError(
            f"step() must return the loss, with its graph (or an object with .loss), and leave backward to "
            f"vram.micro_batches; it returned {type(result).__name__}"
        )
    if factor != 1.0:
        loss = loss * factor
    job.backward(loss)
    return loss.detach()


def _stepped(job: Job, failure: Failure | None) -> BaseException:
    if failure is None:
        return VramError("step() stepped an optimizer; do that after vram.micro_batches, once for the whole batch")
    return job.framework.out_of_memory(
        "out of memory after an optimizer had begun its step. Some parameters may be changed already, so the batch is not "
        f"run again; start from the last checkpoint, and step after vram.micro_batches. {failure}"
    )


def _nothing_smaller(job: Job) -> BaseException:
    sizes = ", ".join(str(size) for size, _ in job.failures)
    here = f"tried micro-batches of {sizes}; the last: {job.failures[-1][1]}" if job.failures else "it was another rank"
    return job.framework.out_of_memory(
        f"out of memory with 1 sample at a time, after {format_size(job.freed_bytes)} were freed ({here}). "
        "Checkpoint activations, or shorten the sample"
    )

"""The attempts of one batch: all micro-batches of one size, then, if any rank failed, all of them in half the size.

What a failed attempt did is undone (gradients, random numbers, buffers). So what stays in the end is, bit for bit, what a
run would have left that had begun with the size that worked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr, tr_later
from vram.recover import _check, _refusals
from vram.recover._job import Job, Part, run_part, share
from vram.recover._oom import Failure, attempt, free
from vram.recover._randomness import Randomness
from vram.recover._votes import OUT_OF_MEMORY, WORKED

_COMMUNICATES = tr_later(
    "step() communicates with other ranks: one that ran out of memory would leave the others "
    "waiting, and parts would not be as many on all. Communicate after vram.micro_batches, "
    "or call backward without it"
)


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
    with job.ranks.votes.reporting():
        outcome = attempt(job.framework, lambda: _run(job, size))
        if outcome.stepped:
            raise _stepped(job, outcome.failure)
    if outcome.failure is not None:
        job.failures.append((size, outcome.failure))
    worst, largest = job.ranks.votes.worst(WORKED if outcome.failure is None else OUT_OF_MEMORY, size)
    if worst == WORKED and job.ranks.complete(job.gradients, lambda make: _made(job, size, make)):
        return outcome.value, largest
    with job.ranks.votes.reporting():
        _undo(job)
        job.freed_bytes += free(job.framework)
    return None, largest


def _undo(job: Job) -> None:
    job.gradients.drop()
    job.randomness.restore()
    job.buffers.restore()
    job.versions.require_unchanged("step()")


def _made(job: Job, size: int, make: Callable[[], None]) -> bool:
    failure = attempt(job.framework, make).failure
    if failure is not None:
        job.failures.append((size, failure))
    return failure is None


def _run(job: Job, size: int) -> Any:
    """Forward and backward of the whole batch. Its loss."""
    known = job.ranks.votes.alone or job.known.silent
    job.buffers.save()
    with nullcontext() if known else job.framework.silent(tr(_COMMUNICATES)):
        fits = size >= job.samples
        loss = run_part(job, job.batch, 1.0, split=False).loss if fits else _run_split(job, size)
    job.gradients.merge()
    return loss


def _run_split(job: Job, size: int) -> Any:
    _refusals.refuse_to_split(job.models)
    ranges = _ranges(job, size)
    with _splitting(job):
        if job.shown is not None and job.shown.gradients < min(size, 2):
            _check.check_gradients(job, job.shown, size)
        before = Randomness(job.framework)
        parts, loss = _run_parts(job, ranges)
        job.drew = before.has_moved(job.framework)
        if job.shown is not None:
            _check.check_losses(job, job.shown, parts, size)
    job.buffers.settle([((part.stop - part.start) / job.samples, part.left) for part in parts])
    job.gradients.run_hooks()
    return loss


@contextmanager
def _splitting(job: Job) -> Iterator[None]:
    """Within it hooks of parameters do not run, and others are refused."""
    with job.gradients.hooks_apart(), job.framework.tensor_hooks(_refusals.refuse_hook):
        yield


def _ranges(job: Job, size: int) -> list[tuple[int, int]]:
    """From where to where each micro-batch goes: of that size, and one of the rest."""
    starts = list(range(0, job.samples, size))
    if job.buffers.norms and size > 1 and job.samples - starts[-1] == 1:
        if size == 2:
            raise VramError(
                tr(
                    "BatchNorm can't normalise the last micro-batch, a single sample: {} samples, two at a "
                    "time. Use a batch of an even number of samples"
                ).format(job.samples)
            )
        starts[-1] -= 1
    return list(zip(starts, [*starts[1:], job.samples]))


def _run_parts(job: Job, ranges: list[tuple[int, int]]) -> tuple[list[Part], Any]:
    total = job.weight(job.batch, job.samples)
    parts: list[Part] = []
    loss: Any = None
    for start, stop in ranges:
        job.buffers.restore()
        part = job.part(start, stop)
        weight = job.weight(part, stop - start)
        factor = 1.0 if job.weigh is None else share(weight, total)
        if factor:  # a mean over nothing is not a number, and adds nothing
            done = run_part(job, part, factor, split=True)
            done.start, done.stop, done.weight, done.left = start, stop, weight, job.buffers.left()
            parts.append(done)
            loss = done.loss * factor if loss is None else loss + done.loss * factor
    if job.weigh is not None and not abs(sum(part.weight for part in parts) - total) <= 1e-4 * total:
        raise VramError(
            tr(
                "weight(batch) gave {:g}, but the parts of the batch have {:g} together; weight(part) "
                "must give over how many the part's mean is, a number that adds up"
            ).format(total, sum(part.weight for part in parts))
        )
    return parts, loss


def _stepped(job: Job, failure: Failure | None) -> BaseException:
    if failure is None:
        return VramError(tr("step() stepped an optimizer; do that after vram.micro_batches, once for the whole batch"))
    return job.framework.out_of_memory(
        tr(
            "out of memory after an optimizer had begun its step. Some parameters may be changed "
            "already, so the batch is not run again; start from the last checkpoint, and step after "
            "vram.micro_batches. {}"
        ).format(failure)
    )


def _nothing_smaller(job: Job) -> BaseException:
    sizes = ", ".join(str(size) for size, _ in job.failures)
    here = (
        tr("tried micro-batches of {}; the last: {}").format(sizes, job.failures[-1][1])
        if job.failures
        else tr("it was another rank")
    )
    return job.framework.out_of_memory(
        tr(
            "out of memory with 1 sample at a time, after {} were freed ({}). Checkpoint "
            "activations, or shorten the sample"
        ).format(format_size(job.freed_bytes), here)
    )

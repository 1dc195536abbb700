"""micro_batches: runs a training batch in as many pieces as necessary, with the gradients of the whole batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vram._arguments import require_integers, require_one_of
from vram._frameworks._training import Training, training_framework
from vram._texts import tr
from vram.recover import _trees
from vram.recover._attempts import until_it_fits
from vram.recover._buffers import Buffers
from vram.recover._claims import claim_of
from vram.recover._gradients import Gradients, parameters_of
from vram.recover._job import Job
from vram.recover._ranks import Ranks
from vram.recover._remembered import remembered_of
from vram.recover._votes import WORKED

_THRASHING_AFTER = 2  # batches in a row


@dataclass(frozen=True)
class MicroBatches:
    """The result of ``vram.micro_batches``. Sizes are in samples. Immutable: any thread may use it.

    >>> import vram
    >>> vram.MicroBatches(loss=0.25, size=16, count=2, retries=1).count
    2
    """

    loss: Any  # of the full batch, a tensor without graph
    size: int  # of each micro-batch; the last may be smaller
    count: int
    retries: int = 0
    freed_bytes: int = 0  # returned to the devices between attempts
    alloc_retries: int = 0  # how often the allocator had to empty its cache: slow, and close to the limit
    notes: tuple[str, ...] = ()  # differences from the full batch


def micro_batches(  # size: most of it documents the parameters
    batch: Any,
    step: Callable[[Any], Any],
    *,
    model: Any = None,
    optimizer: Any = None,
    weight: Callable[[Any], Any] | None = None,
    reduction: str = "mean",
    backward: Callable[[Any], object] | None = None,
    samples: int | None = None,
    split: Callable[[Any, int, int], Any] | None = None,
    grow_after: int | None = 100,
    allow_batch_norm: bool = False,
    check: bool = True,
    group: Any = None,
) -> MicroBatches:
    """Run forward and backward for a batch. If memory runs out, repeat with smaller and smaller micro-batches.

    ``step(part)`` computes the loss and returns it (or an object with ``.loss``). It neither calls backward nor scales
    the loss; this function does both. Afterwards, ``.grad`` contains what ``step(batch).backward()`` would have added
    (up to rounding), or VramError says why that is impossible. ``step`` and ``backward`` also run to compare
    parts with the whole batch, so they must not count their calls. Clip, step the optimizer and zero gradients after
    this call. After an error, gradients are as before. Ranks call it together; in one process, one thread at a time.

    Args:
        batch: Tensors in dicts, lists, tuples or dataclasses, with equal dimension 0.
        step: ``step(part)`` returns the loss of a part of the batch.
        model: The trained module, or a list of them; with DistributedDataParallel, the wrapper.
        optimizer: Its optimizer, if it has parameters that `model` does not contain.
        weight: For means over something else than samples: ``weight(part)`` returns over how many, for example tokens.
        reduction: How the loss combines samples: "mean" or "sum".
        backward: Called with each scaled loss instead of ``loss.backward()``, for a gradient scaler.
        samples: The length of a batch of another kind, with `split`.
        split: ``split(batch, start, stop)`` returns a part of such a batch.
        grow_after: Tries twice the size after this many batches; None: never.
        allow_batch_norm: Runs models with BatchNorm, whose gradients then differ.
        check: False does not compare parts with the whole batch.
        group: Ranks that call this together, other than through DistributedDataParallel; False: this rank alone.

    Raises:
        torch.OutOfMemoryError: One sample does not fit, or memory ran out after an optimizer began to step.
        TypeError: `model` is not a torch.nn.Module, or a list of them.
        ValueError: The batch has no samples or cannot be split, or options contradict each other.
        VramError: Equal gradients are impossible or unverifiable, or another rank failed.

    >>> import torch, vram
    >>> model = torch.nn.Linear(4, 1)
    >>> batch = {"x": torch.ones(8, 4), "y": torch.zeros(8, 1)}
    >>> def step(part):
    ...     if len(part["x"]) > 4: raise torch.OutOfMemoryError("simulated")
    ...     return torch.nn.functional.mse_loss(model(part["x"]), part["y"])
    >>> done = vram.micro_batches(batch, step, model=model)
    >>> done.size, done.count, done.retries
    (4, 2, 1)
    """
    _refuse_contradictions(weight, reduction, samples, split, grow_after)
    framework = training_framework()
    models = _modules_of(model)
    ranks = Ranks(models, group)
    with ranks.votes.reporting():  # a failure of this rank alone must not leave the others waiting
        ranks.refuse_special()
        total = _samples_of(batch, samples)
        remembered = remembered_of(models[0])
        job = Job(
            framework=framework,
            batch=batch,
            samples=total,
            step=step,
            cut=split or (lambda whole, start, stop: _trees.part(whole, start, stop, total)),
            weigh=_weigher(weight, reduction),
            backward=backward or (lambda loss: loss.backward()),
            buffers=Buffers(models, allow_batch_norm, remembered),
            gradients=Gradients(parameters_of(models, optimizer)),
            ranks=ranks,
            remembered=remembered,
            models=models,
            known=remembered.step((claim_of(step), claim_of(weight), reduction, tuple(map(claim_of, models)))),
            is_compared=check,
        )
    return _run(job, grow_after)


def _samples_of(batch: Any, samples: int | None) -> int:
    total = samples if samples is not None else _trees.samples(batch)
    require_integers(1, samples=total)
    return total


def _refuse_contradictions(
    weight: Any, reduction: str, samples: int | None, split: Any, grow_after: int | None
) -> None:
    require_integers(1, grow_after=grow_after)
    require_one_of(("mean", "sum"), reduction=reduction)
    if weight is not None and reduction == "sum":
        raise ValueError(tr("weight= is for a mean; with reduction='sum', leave it out"))
    if (split is None) != (samples is None):
        raise ValueError(tr("split and samples are given together: how to cut the batch, and how many samples it has"))


def _modules_of(model: Any) -> list[Any]:
    """Return each module once; TypeError: there is none."""
    models = list({id(one): one for one in (model if isinstance(model, (list, tuple)) else [model])}.values())
    if not models or not all(hasattr(one, "named_modules") for one in models):
        raise TypeError(
            tr(
                "what step() trains is not known, so that a failure could not be undone and its layers "
                "not be looked at; pass model=, the torch.nn.Module (or a list of them), not {!r}"
            ).format(model)
        )
    return models


def _weigher(weight: Callable[[Any], Any] | None, reduction: str) -> Callable[[Any, int], float] | None:
    if weight is not None:
        of_part = weight
        return lambda part, _samples: float(of_part(part))
    return None if reduction == "sum" else lambda _part, samples: float(samples)


def _run(job: Job, grow_after: int | None) -> MicroBatches:
    retries_before = _alloc_retries(job.framework)
    job.ranks.votes.worst(WORKED)  # all ranks are ready to begin
    worked = False
    try:
        job.gradients.set_aside()
        with job.ranks.apart():
            size, loss = until_it_fits(job, job.remembered.start(job.samples, grow_after))
        worked = True
    finally:
        if not worked:
            job.gradients.put_back()
            job.buffers.restore()
    job.buffers.note()
    job.known.silent = True
    job.gradients.accumulate()
    job.ranks.average()
    job.remembered.worked()
    return _report(job, size, loss, _alloc_retries(job.framework) - retries_before)


def _alloc_retries(framework: Training) -> int:
    return sum(framework.alloc_retries(device) for device in framework.devices())


def _report(job: Job, size: int, loss: Any, alloc_retries: int) -> MicroBatches:
    remembered = job.remembered
    remembered.thrashed = remembered.thrashed + 1 if alloc_retries else 0
    if remembered.thrashed == _THRASHING_AFTER:
        warnings.warn(
            tr(
                "the allocator had to give its cache back during this batch (retries: {}) and during the one before: "
                "micro-batches of {} fit, but only just, and slowly; smaller ones are likely faster"
            ).format(alloc_retries, size),
            stacklevel=4,
        )
    count = -(-job.samples // size)
    return MicroBatches(loss, size, count, job.attempts - 1, job.freed_bytes, alloc_retries, _notes(job, count))


def _notes(job: Job, count: int) -> tuple[str, ...]:
    notes = []
    if count > 1 and job.buffers.norms:
        notes.append(tr("BatchNorm ({}) normalised by micro-batch: other gradients").format(len(job.buffers.norms)))
    if count > 1 and job.drew:
        notes.append(
            tr(
                "random numbers (of dropout, say) were drawn for each micro-batch: gradients equal the "
                "full batch's in distribution only"
            )
        )
    if count > 1 and job.shown is None and not job.buffers.norms:
        notes.append(tr("not compared with the whole batch (check=False)"))
    return tuple(notes)

"""vram.plan_checkpoints(): which blocks to run again in backward, found in a dry run and tried there."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vram._arguments import require_one_of
from vram._error import VramError
from vram._sizes import format_size, parse_limit
from vram._texts import tr
from vram.planning import _chain
from vram.planning._question import Question, autocast_of, gpu_here, outside_autocast, question_of
from vram.planning._region import CheckpointRegion
from vram.planning._result import CheckpointPlan

if TYPE_CHECKING:
    import torch

    from vram.planning._measure import Step

_ROUNDS = 12  # how often a schedule is solved for less, after the dry run of one needed more than the budget


class _Trial:
    """The copy of the model during a dry run, and its steps."""

    def __init__(self, question: Question, run: Any, device: Any, autocast: Callable[[], Any]) -> None:
        from vram.planning._model import fake_copy, fake_sample

        self._autocast = autocast  # of the forward pass
        self._question, self._clock = question, lambda: run._running().clock.now_ns
        self.model, self._optimizer = fake_copy(question.model, question.optimizer)
        self._sample = fake_sample(question.sample, device)
        self.blocks = [self.model.get_submodule(name) for name in question.names]

    def _forward(self) -> Any:
        return self._question.forward(self.model, self._sample, self._autocast)

    def step(self, regions: Iterable[CheckpointRegion] = ()) -> tuple[Step, int]:
        """Return the marks of a step with these regions, and its peak with the optimizer's step."""
        import torch

        from vram.dry._clock import selective_ns
        from vram.planning._measure import watched_step
        from vram.planning._regions import Regions

        if not self._question.accumulates:
            self.model.zero_grad(set_to_none=True)
        applied = Regions(self.model, self.blocks, tuple(regions)) if regions else None

        def now() -> int:
            """On the GPU, which waits for the host where blocks keep products: conservatively, as if it always did."""
            operators = applied.selective_operators if applied is not None else 0
            return int(self._clock() + selective_ns() * operators)

        try:
            step = watched_step(self.blocks, self._forward, now)
        finally:
            if applied is not None:
                applied.remove()
        if self._optimizer is not None:
            self._optimizer.step()
        peak = max(*(mark.peak_bytes for mark in step.marks.values()), torch.cuda.max_memory_allocated())
        return step, peak


# size: most of it is its documentation
def plan_checkpoints(
    model: torch.nn.Module,
    sample: Any,
    budget: int | str,
    *,
    cost: str = "flops",
    compile: bool = False,  # noqa: A002 the word that PyTorch uses
    loss: Callable[[Any], Any] | None = None,
    optimizer: Any = None,
    blocks: Iterable[torch.nn.Module] | None = None,
    gpu: str | None = None,
    torch_version: str | None = None,
    accumulates: bool = False,
    single_blocks: bool = False,
) -> CheckpointPlan:
    """Find which blocks of a model to run again in backward so that a training step needs at most `budget`, and takes the least time.

    The step runs on a copy of the model in a dry run (docs/dry-run.md), without a GPU and without memory; the planner of ``vram plan``
    finds schedules; the fastest is tried in the dry run, and returned if its peak is within the budget. Inside torch.autocast, the forward
    pass and the loss of that step run inside autocast and its backward pass outside, as PyTorch recommends.

    No dry run can follow compiled code. With `compile`, the step runs on the GPU as it will run, and what is measured there is compared: the
    model compiled as a whole with several budgets of torch.compile's partitioner, and blocks compiled one by one, each with its own budget. The
    fastest whose peak was within the budget is returned.

    Args:
        model: The model as it will train: in training mode, and before torch.compile, DistributedDataParallel or fully_shard.
        sample: What the model is called with: a tensor, a tuple of arguments or a dict of named ones, as large as they will be.
        budget: What PyTorch's allocator may have allocated at one time (``torch.cuda.max_memory_allocated()``): "20GiB" or bytes.
        cost: The times to plan with: "flops" estimates them for the GPU, "measured" runs the model a few times where it is.
        compile: Whether to compile the model, on the GPU where it is; this takes minutes. Gradients, buffers and random numbers stay
            as they are.
        loss: Computes the loss from what the model returns. By default its ``loss``, or the sum of its results.
        optimizer: The optimizer, so that its states and its step count.
        blocks: The modules to choose between, in the order in which the model calls them. By default the longest list of
            blocks of one class.
        gpu: As in vram.dry_run(); by default the GPU of this machine, or an H200.
        torch_version: As in vram.dry_run().
        accumulates: Whether gradients exist before the step, as in gradient accumulation.
        single_blocks: Only regions of one block, which FSDP2 needs.

    Raises:
        TypeError: `model` or `sample` has another type.
        ValueError: Another argument is invalid.
        VramError: Nothing fits into the budget; the message names the least that does. Or the model has no blocks to choose
            between, or is compiled, or the dry run cannot follow it.

    >>> import torch, vram
    >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
    >>> plan = vram.plan_checkpoints(model, torch.zeros(2, 8), "1GiB")
    >>> plan.regions
    ()
    """
    from vram.dry import dry_run

    budget_bytes = parse_limit(budget)
    require_one_of(("flops", "measured"), cost=cost)
    question, device = question_of(model, sample, loss, optimizer, blocks, accumulates, single_blocks)
    if compile:
        from vram.planning._search import CompiledSearch

        return CompiledSearch(question, device).plan(budget_bytes)
    measured = None
    if cost == "measured":
        from vram.planning._live import measured_steps

        measured = measured_steps(question, device)
    state = random.getstate()
    with warnings.catch_warnings(), dry_run(gpu or gpu_here(), torch_version=torch_version) as run:
        warnings.simplefilter("ignore")
        autocast = autocast_of(device, "cuda")
        with outside_autocast(device):
            plan = _planned(_Trial(question, run, device, autocast), question, budget_bytes, measured)
    random.setstate(state)
    return plan


def _each(count: int, keeps_products: bool = False) -> tuple[CheckpointRegion, ...]:
    return tuple(CheckpointRegion(i, i, keeps_products) for i in range(count))


def _chosen(options: tuple[str, ...]) -> tuple[CheckpointRegion, ...]:
    return tuple(CheckpointRegion(i, i, name == "products") for i, name in enumerate(options) if name != "keep")


def _planned(
    trial: _Trial, question: Question, budget_bytes: int, measured: tuple[Step, Step, Step | None] | None
) -> CheckpointPlan:
    count, names = len(question.names), question.names
    trial.step()  # from the second step on, workspaces and the optimizer's states exist
    keep, full_peak = trial.step()
    full_ns = _chain.time_of(_chain.costs_of(_timed(keep, measured, 0), count))

    def plan(peak: int, time_ns: int, regions: tuple[CheckpointRegion, ...]) -> CheckpointPlan:
        return CheckpointPlan(budget_bytes, peak, full_peak, time_ns, full_ns, tuple(names), regions)

    if full_peak <= budget_bytes:
        return plan(full_peak, full_ns, ())
    again, least_peak = trial.step(_each(count))
    steps = {"keep": _timed(keep, measured, 0), "recompute": _timed(again, measured, 1)}
    with contextlib.suppress(RuntimeError):  # a result that is changed in place cannot be kept
        steps["products"] = _timed(trial.step(_each(count, keeps_products=True))[0], measured, 2)
    ways = {name: _chain.costs_of(step, count) for name, step in steps.items()}
    kinds = [True] if question.is_single or not keep.is_direct else [False, True]
    offered = {True: ways, False: {"keep": ways["keep"]}}
    chains = {
        single: _chain.chain(names, keep, offered[single], ways["recompute"], is_single=single) for single in kinds
    }

    best: CheckpointPlan | None = None
    if least_peak <= budget_bytes:  # nothing slower than this is worth it
        best = plan(least_peak, _chain.time_of(ways["recompute"]), _each(count))
    smallest: list[int] = [least_peak]
    for single, document in chains.items():
        wanted = budget_bytes
        for _ in range(_ROUNDS):
            try:
                solved = _chain.solve(document, wanted, is_single=single)
            except _chain.TooSmall as error:
                if error.smallest_bytes is not None and not single:
                    smallest.append(error.smallest_bytes + budget_bytes - wanted)
                break
            regions = _chosen(solved.options) if single else solved.regions
            try:
                _, peak = trial.step(regions)
            except VramError:
                if single:
                    raise
                break  # the model does not allow regions of several blocks
            smallest.append(peak)
            if peak <= budget_bytes:
                if best is None or solved.time_ns < best.step_ns:
                    best = plan(peak, solved.time_ns, regions)
                break
            wanted -= max(peak - budget_bytes, budget_bytes >> 12)
    if best is None:
        raise _too_small(budget_bytes, min(smallest), full_peak)
    return best


def _too_small(budget_bytes: int, smallest_bytes: int, full_peak_bytes: int) -> VramError:
    text = tr(
        "no choice of blocks to run again lets the step run in {} ({} bytes): it needs about {} ({} bytes), and {} "
        "without recomputation; use a larger budget, or a smaller batch"
    )
    budget, smallest = format_size(budget_bytes), format_size(smallest_bytes)
    return VramError(text.format(budget, budget_bytes, smallest, smallest_bytes, format_size(full_peak_bytes)))


def _timed(step: Step, measured: tuple[Step, Step, Step | None] | None, kind: int) -> Step:
    """The step with measured times."""
    timed = measured[kind] if measured is not None else None
    if timed is None:
        return step
    from vram.planning._measure import Mark

    marks = {
        name: Mark(mark.live_bytes, mark.peak_bytes, timed.marks[name].time_ns) for name, mark in step.marks.items()
    }
    return replace(step, marks=marks)

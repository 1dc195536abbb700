"""vram.plan_checkpoints(): which blocks to run again in backward, found in a dry run and tried there."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from vram._arguments import require_one_of
from vram._error import VramError
from vram._sizes import format_size, parse_limit
from vram.planning import _chain
from vram.planning._region import CheckpointRegion

if TYPE_CHECKING:
    import torch

    from vram.planning._measure import Step

_ROUNDS = 12  # how often a schedule is solved for less, after the dry run of one needed more than the budget
_REPETITIONS = 3  # of measured steps


@dataclass(frozen=True)
class CheckpointPlan:
    """Which blocks of a model run again in backward. Printing it lists them. It can be pickled.

    Attributes:
        budget_bytes: The requested budget.
        peak_bytes: The peak of allocated bytes in a dry run of the step with this plan; at most the budget.
        full_peak_bytes: The same without recomputation.
        step_ns, full_step_ns: The estimated times of a forward and backward pass, with this plan and without recomputation.
        names: The names of the blocks.
        regions: The blocks that run again, with those inside that do so twice.
    """

    budget_bytes: int
    peak_bytes: int
    full_peak_bytes: int
    step_ns: int
    full_step_ns: int
    names: tuple[str, ...]
    regions: tuple[CheckpointRegion, ...]

    @property
    def saved_bytes(self) -> int:
        """How much lower the peak is than without recomputation."""
        return self.full_peak_bytes - self.peak_bytes

    @property
    def added_share(self) -> float:
        """By what share of its time the step becomes longer, by the estimated times."""
        return self.step_ns / self.full_step_ns - 1 if self.full_step_ns else 0.0

    def __str__(self) -> str:
        lines = [
            f"peak {format_size(self.peak_bytes)} of a budget of {format_size(self.budget_bytes)}; {format_size(self.full_peak_bytes)} "
            f"without recomputation; a step takes {100 * self.added_share:+.1f} % of the estimated time"
        ]
        if not self.regions:
            lines.append("  everything is kept")
        lines.extend(self._describe(self.regions, "  "))
        return "\n".join(lines)

    def _describe(self, regions: Iterable[CheckpointRegion], indent: str) -> Iterator[str]:
        for region in regions:
            last = "" if region.first == region.last else f" to {self.names[region.last]}"
            what = "again, except matrix products, convolutions and attention" if region.keeps_products else "again"
            yield f"{indent}{self.names[region.first]}{last}: {what}"
            yield from self._describe(region.parts, indent + "  ")


@dataclass(frozen=True)
class _Question:
    model: Any
    sample: Any
    optimizer: Any
    loss: Callable[[Any], Any]
    names: list[str]
    budget_bytes: int
    accumulates: bool
    is_single: bool


def loss_of(output: Any) -> Any:
    """Return the loss in what a model returned, or the sum of its results."""
    from vram.planning._calls import tensors_in

    found = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if found is not None:
        return found
    wanted = [t for t in tensors_in(output) if t.requires_grad and t.is_floating_point()]
    if not wanted:
        raise VramError("no result of the model requires a gradient; state loss=, a function of what the model returns")
    return sum(t.sum() for t in wanted)


class _Trial:
    """The copy of the model during a dry run, and its steps."""

    def __init__(self, question: _Question, run: Any, device: Any, autocast: Callable[[], Any]) -> None:
        from vram.planning._model import fake_copy, fake_sample

        self._autocast = autocast  # of the forward pass
        self._question, self._clock = question, lambda: run._running().clock.now_ns
        self.model, self._optimizer = fake_copy(question.model, question.optimizer)
        self._sample = fake_sample(question.sample, device)
        self.blocks = [self.model.get_submodule(name) for name in question.names]

    def _forward(self) -> Any:
        from vram.planning._model import called

        with self._autocast():
            return self._question.loss(called(self.model, self._sample))

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


def _autocast_on_gpu(device: Any) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Return what enters, for the pretended GPU, the autocast that the model's device has now."""
    import torch

    if not (torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)):
        return contextlib.nullcontext
    return partial(
        torch.autocast, "cuda", torch.get_autocast_dtype(device.type), cache_enabled=torch.is_autocast_cache_enabled()
    )


@contextlib.contextmanager
def _outside_autocast(device: Any) -> Iterator[None]:
    """Leave all autocast contexts, as a training step does before its backward pass: that empties the cache of cast parameters."""
    import torch

    torch.clear_autocast_cache()
    depth = torch.autocast_increment_nesting()
    for _ in range(depth):
        torch.autocast_decrement_nesting()
    kinds = [kind for kind in {"cuda", device.type} if torch.amp.is_autocast_available(kind)]
    enabled = {kind: torch.is_autocast_enabled(kind) for kind in kinds}
    for kind in kinds:
        torch.set_autocast_enabled(kind, False)
    try:
        yield
    finally:
        for kind in kinds:
            torch.set_autocast_enabled(kind, enabled[kind])
        for _ in range(depth - 1):
            torch.autocast_increment_nesting()


def _gpu_here() -> str:
    import torch

    from vram.dry._gpu import find_gpu

    if not torch.cuda.is_available():
        return "H200"
    name = torch.cuda.get_device_name()
    with contextlib.suppress(ValueError):
        return find_gpu(name).name
    return f"{torch.cuda.get_device_properties(0).total_memory}B"


# size: most of it is its documentation
def plan_checkpoints(
    model: torch.nn.Module,
    sample: Any,
    budget: int | str,
    *,
    cost: str = "flops",
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

    Args:
        model: The model as it will train: in training mode, and before torch.compile, DistributedDataParallel or fully_shard.
        sample: What the model is called with: a tensor, a tuple of arguments or a dict of named ones, as large as they will be.
        budget: What PyTorch's allocator may have allocated at one time (``torch.cuda.max_memory_allocated()``): "20GiB" or bytes.
        cost: The times to plan with: "flops" estimates them for the GPU, "measured" runs the model a few times where it is.
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
    from vram.planning._model import check_sample, device_of, named_blocks, unwrapped

    budget_bytes = parse_limit(budget)
    require_one_of(("flops", "measured"), cost=cost)
    model = unwrapped(model)
    check_sample(sample)
    named = named_blocks(model, blocks)
    device = device_of(model)
    question = _Question(
        model, sample, optimizer, loss or loss_of, [n for n, _ in named], budget_bytes, accumulates, single_blocks
    )
    measured = _measured_steps(question, [b for _, b in named], device) if cost == "measured" else None
    state = random.getstate()
    with warnings.catch_warnings(), dry_run(gpu or _gpu_here(), torch_version=torch_version) as run:
        warnings.simplefilter("ignore")
        autocast = _autocast_on_gpu(device)
        with _outside_autocast(device):
            plan = _planned(_Trial(question, run, device, autocast), question, measured)
    random.setstate(state)
    return plan


def _each(count: int, keeps_products: bool = False) -> tuple[CheckpointRegion, ...]:
    return tuple(CheckpointRegion(i, i, keeps_products) for i in range(count))


def _planned(trial: _Trial, question: _Question, measured: tuple[Step, Step, Step | None] | None) -> CheckpointPlan:
    count, names = len(question.names), question.names
    trial.step()  # from the second step on, workspaces and the optimizer's states exist
    keep, full_peak = trial.step()
    full_ns = _chain.time_of(_timed(keep, measured, 0), count)

    def plan(peak: int, time_ns: int, regions: tuple[CheckpointRegion, ...]) -> CheckpointPlan:
        return CheckpointPlan(question.budget_bytes, peak, full_peak, time_ns, full_ns, tuple(names), regions)

    if full_peak <= question.budget_bytes:
        return plan(full_peak, full_ns, ())
    again, least_peak = trial.step(_each(count))
    products = None
    with contextlib.suppress(RuntimeError):  # a result that is changed in place cannot be kept
        products, _ = trial.step(_each(count, keeps_products=True))
    steps = [_timed(step, measured, i) if step is not None else None for i, step in enumerate((keep, again, products))]
    kinds = [True] if question.is_single or not keep.is_direct else [False, True]
    chains = {single: _chain.chain(names, steps[0], steps[1], steps[2], is_single=single) for single in kinds}  # type: ignore[arg-type]

    best: CheckpointPlan | None = None
    if least_peak <= question.budget_bytes:  # nothing slower than this is worth it
        best = plan(least_peak, _chain.time_of(steps[1], count), _each(count))  # type: ignore[arg-type]
    smallest: list[int] = [least_peak]
    for single, document in chains.items():
        wanted = question.budget_bytes
        for _ in range(_ROUNDS):
            try:
                solved = _chain.solve(document, wanted, is_single=single)
            except _chain.TooSmall as error:
                if error.smallest_bytes is not None and not single:
                    smallest.append(error.smallest_bytes + question.budget_bytes - wanted)
                break
            try:
                _, peak = trial.step(solved.regions)
            except VramError:
                if single:
                    raise
                break  # the model does not allow regions of several blocks
            smallest.append(peak)
            if peak <= question.budget_bytes:
                if best is None or solved.time_ns < best.step_ns:
                    best = plan(peak, solved.time_ns, solved.regions)
                break
            wanted -= max(peak - question.budget_bytes, question.budget_bytes >> 12)
    if best is None:
        raise VramError(
            f"no choice of blocks to run again lets the step run in {format_size(question.budget_bytes)} ({question.budget_bytes} bytes): "
            f"it needs about {format_size(min(smallest))} ({min(smallest)} bytes), and {format_size(full_peak)} without recomputation; use a "
            "larger budget, or a smaller batch"
        )
    return best


def _timed(step: Step, measured: tuple[Step, Step, Step | None] | None, kind: int) -> Step:
    """The step with measured times."""
    timed = measured[kind] if measured is not None else None
    if timed is None:
        return step
    from vram.planning._measure import Mark, Step

    marks = {
        name: Mark(mark.live_bytes, mark.peak_bytes, timed.marks[name].time_ns) for name, mark in step.marks.items()
    }
    return Step(marks, step.border_bytes, step.freed, step.is_direct)


def _measured_steps(question: _Question, blocks: list[Any], device: Any) -> tuple[Step, Step, Step | None]:
    """Run the model where it is, with its blocks as regions; gradients, random numbers and buffers stay as they are."""
    import torch

    from vram.planning._measure import Mark, Step, wall_clock, watched_step
    from vram.planning._model import called
    from vram.planning._regions import Regions

    model = question.model
    gradients = [(p, p.grad) for p in model.parameters()]
    buffers = [(b, b.clone()) for b in model.buffers()]

    def timed(products: bool) -> Step:
        regions = Regions(model, blocks, _each(len(blocks), products))
        try:
            steps = []
            for _ in range(1 + _REPETITIONS):
                model.zero_grad(set_to_none=True)
                steps.append(
                    watched_step(blocks, lambda: question.loss(called(model, question.sample)), wall_clock(device))
                )
            return min(steps[1:], key=lambda step: step.marks["end"].time_ns - step.marks["start"].time_ns)
        finally:
            regions.remove()

    try:
        with torch.random.fork_rng():
            again = timed(False)
            products = None
            with contextlib.suppress(RuntimeError):
                products = timed(True)
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    # Without its repetition: every block runs once less.
    shift, marks = 0, dict(again.marks)
    for number in [None, *range(len(blocks) - 1, -1, -1)]:
        if number is not None:
            shift += again.marks[f"after {number}"].time_ns - again.marks[f"before {number}"].time_ns
            name = f"gradient {number - 1}" if f"gradient {number - 1}" in marks else "end"
            marks[name] = Mark(0, 0, again.marks[name].time_ns - shift)
    if "gradient -1" in marks:
        marks["end"] = Mark(0, 0, again.marks["end"].time_ns - shift)
    return Step(marks, again.border_bytes, again.freed, again.is_direct), again, products

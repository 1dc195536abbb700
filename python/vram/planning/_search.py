"""The fastest compiled model within a budget, by measuring it where it is."""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr
from vram.dry import dry_run
from vram.planning import _chain
from vram.planning._chain import Costs
from vram.planning._compiled import Applied, Compiler, kind_of
from vram.planning._live import LiveSteps, as_before, or_none
from vram.planning._measure import GpuMemory, Step
from vram.planning._model import fake_copy
from vram.planning._question import Question, gpu_here, outside_autocast
from vram.planning._region import CheckpointRegion, regions_of
from vram.planning._requests import FIRST_SHARES, Answer, next_request, next_share
from vram.planning._result import CheckpointPlan, CheckpointTrial

# With which each block is compiled. With 1 the partitioner keeps what it finds fastest. Just below 1 it runs cheap operators again, as a rule
# no product or convolution, and with 0 it keeps the input only. Chosen by the partitioner's own estimates for blocks of nine architectures that
# are not in bench/: with (1, 0.5, 0) they ran a quarter more of their products again, on average over what they may keep.
_BUDGETS = (1.0, 0.99, 0.5, 0.2, 0.0)
_ROUNDS = 6  # how many schedules of each chain are measured for a budget
_REQUESTS = 16  # how often the planner is asked for them
_MODEL_ROUNDS = 5  # how often the whole model is compiled
_UNLIMITED = 1 << 50


@dataclass(frozen=True)
class _Choice:
    compiled: str | None
    budgets: tuple[float, ...]
    regions: tuple[CheckpointRegion, ...] = ()

    def __str__(self) -> str:
        if self.compiled == "model":
            return tr("model compiled with activation_memory_budget {:g}").format(self.budgets[0])
        parts = [tr("{} with {:g}").format(self.budgets.count(each), each) for each in dict.fromkeys(self.budgets)]
        if self.regions:
            again = tr("{} region runs again") if len(self.regions) == 1 else tr("{} regions run again")
            parts.append(again.format(len(self.regions)))
        if self.compiled is None:
            return tr("nothing compiled, {}").format(parts[-1])
        return tr("blocks compiled, {}").format(tr(", ").join(parts))


_EVERYTHING = _Choice("model", (1.0,))


@dataclass(frozen=True)
class _Measured:
    peak_bytes: int
    after_bytes: int  # of the backward pass
    step_ns: int


class CompiledSearch:
    """Compiles and measures a model; plans for several budgets share what was measured.

    Args:
        question: The model, its sample and its loss.
        device: Of the model.
        compiler: Compiles forwards.
        memory: Counts memory.

    Raises:
        VramError: The memory of this device is not counted.
    """

    def __init__(
        self, question: Question, device: torch.device, compiler: Compiler | None = None, memory: Any = None
    ) -> None:
        if memory is None and device.type != "cuda":
            raise VramError(
                tr(
                    "compile=True measures the compiled model where it runs, and this one is on {}, where "
                    "PyTorch doesn't count memory; move the model and its sample to a GPU, or plan without "
                    "compile"
                ).format(device)
            )
        self._question, self._device, self._compiler = question, device, compiler or Compiler()
        self._memory = memory or GpuMemory()
        self._steps = LiveSteps(question, device, self._memory)
        self._blocks = [question.model.get_submodule(name) for name in question.names]
        self._state_bytes, self._optimizer_peak = _optimizer_bytes(question)
        self._measured: dict[_Choice, _Measured | None] = {}
        self._chains: dict[bool, dict[str, Any]] = {}  # by is_single
        self._full_chain: dict[str, Any] = {}  # of blocks that keep everything
        self._answers: dict[bool, list[Answer]] = defaultdict(list)  # of the planner, by is_single
        self._bounds: dict[bool, tuple[int, int]] = {}  # of what it can be asked for

    def plan(self, budget_bytes: int) -> CheckpointPlan:
        """Return the fastest plan whose measured peak is within the budget.

        Raises:
            VramError: There is none; the message names the least that was measured.
        """
        with as_before(self._question.model, self._device), outside_autocast(self._device):
            began = time.monotonic()
            self._compile_model(budget_bytes)
            if _EVERYTHING not in self._fitting(budget_bytes):
                if not self._chains:
                    self._make_chains()
                for single in self._chains:
                    self._solve(budget_bytes, single)
                fastest = self._fastest(budget_bytes)
                if False in self._chains and (fastest is None or fastest.regions):
                    self._measure(_square_root(len(self._blocks)))
            return self._best(budget_bytes, time.monotonic() - began)

    # ---------------------------------------------------------------------------------------------- measurements

    def _apply(self, choice: _Choice) -> Applied:
        return Applied(
            self._question.model, self._blocks, choice.compiled, choice.budgets, choice.regions, self._compiler
        )

    def _measure(self, choice: _Choice) -> _Measured | None:
        """Return what steps take; None: too much memory."""
        if choice not in self._measured:
            self._measured[choice] = or_none(lambda: self._measure_now(choice), self._question.model)
        return self._measured[choice]

    def _measure_now(self, choice: _Choice) -> _Measured:
        applied = self._apply(choice)
        try:
            self._steps.run()  # compiles
            self._memory.reset()
            step_ns = self._steps.timed_ns()
            after = self._memory.live_bytes()
            peak = max(self._memory.peak_bytes() + self._state_bytes, after + self._optimizer_peak)
            return _Measured(peak, after + self._state_bytes, step_ns)
        finally:
            applied.remove()
            gc.collect()  # blocks and their regions know each other; what they hold would count in the next choice

    def _watch(self, budgets: list[float]) -> Step:
        applied = self._apply(_Choice("blocks", tuple(budgets)))
        try:
            return self._steps.watched()
        finally:
            applied.remove()

    def _make_chains(self) -> None:
        count = len(self._blocks)
        least = or_none(lambda: self._watch([0.0] * count), self._question.model)
        if least is None:
            raise VramError(
                tr("the GPU ran out of memory even with blocks that keep nothing but their input; use a smaller batch")
            )
        least_costs = _chain.costs_of(least, count)
        ways: dict[str, list[Costs]] = {}
        ran: set[tuple[int, str]] = set()
        for budget in _BUDGETS:
            found = dict(self._costs(budget, range(count)) if budget > 0 else enumerate(least_costs))
            ran.update((i, str(budget)) for i in found)
            costs = [found.get(i, each) for i, each in enumerate(least_costs)]
            ways[str(budget)] = self._with_times_of_kinds(costs)
        # Of a block that cannot keep everything, the most that ran.
        most = [next(str(each) for each in _BUDGETS if (i, str(each)) in ran) for i in range(count + 1)]
        full = [ways[budget][i] for i, budget in enumerate(most)]
        self._full_chain = _chain.chain(self._question.names, least, {"keep": full}, full, is_single=True)
        for kind in [True] if self._question.is_single or not least.is_direct else [True, False]:
            chain = _chain.chain(self._question.names, least, ways, ways[str(_BUDGETS[-1])], is_single=kind)
            chain["fixed_bytes"] += self._state_bytes
            for number, stage in enumerate(chain["stages"][:-1]):
                # Without what ran out of memory even where this block alone kept it.
                stage["options"] = [each for each in stage["options"] if (number, each["name"]) in ran]
            self._chains[kind] = chain

    def _with_times_of_kinds(self, costs: list[Costs]) -> list[Costs]:
        """Blocks that share their code get the median of their times, so that noise does not choose between them."""
        kinds: dict[Any, list[int]] = defaultdict(list)
        for number, block in enumerate(self._blocks):
            kinds[kind_of(block), costs[number].kept_bytes].append(number)
        found = list(costs)
        for numbers in kinds.values():
            forward_ns = sorted(costs[i].forward_ns for i in numbers)[len(numbers) // 2]
            backward_ns = sorted(costs[i].backward_ns for i in numbers)[len(numbers) // 2]
            for i in numbers:
                found[i] = replace(costs[i], forward_ns=forward_ns, backward_ns=backward_ns)
        return found

    def _costs(self, budget: float, numbers: range) -> Iterator[tuple[int, Costs]]:
        """Yield what these blocks take, the others keeping nothing; if that is too much at once, of half of them after the other."""
        count = len(self._blocks)
        step = or_none(
            lambda: self._watch([budget if i in numbers else 0.0 for i in range(count)]), self._question.model
        )
        if step is not None:
            costs = _chain.costs_of(step, count)
            yield from ((i, costs[i]) for i in numbers)
        elif len(numbers) > 1:
            middle = len(numbers) // 2
            yield from self._costs(budget, numbers[:middle])
            yield from self._costs(budget, numbers[middle:])

    # ---------------------------------------------------------------------------------------------- choices

    def _solve(self, budget_bytes: int, single: bool) -> None:
        """Measure choices, each for what the ones before needed too much, or left."""
        if single not in self._bounds:
            self._bounds[single] = self._bounds_of(self._chains[single], single)
        least, most = self._bounds[single]
        rounds = 0
        for _ in range(_REQUESTS):
            request = next_request(self._answers[single], budget_bytes, least, most)
            if request is None:
                break
            try:
                solved = _chain.solve(self._chains[single], request, is_single=single)
            except _chain.TooSmall:
                least = request + max(1, budget_bytes >> 5)
                continue
            choice = _Choice("blocks", tuple(map(float, solved.options)), solved.regions)
            rounds += choice not in self._measured
            if rounds > _ROUNDS:
                break
            measured = self._measure(choice)
            peak = None if measured is None else measured.peak_bytes
            self._answers[single].append(Answer(request, solved.peak_bytes, peak))
        self._bounds[single] = least, most

    def _bounds_of(self, chain: dict[str, Any], single: bool) -> tuple[int, int]:
        """Return the least that the planner can be asked for, and the peak of what it chooses without a budget; both by the chain."""
        most = _chain.solve(chain, _UNLIMITED, is_single=single).peak_bytes
        if single:  # the planner's own limit would be that of regions, which this chain only forbids by their time
            again = {**chain, "stages": [{**each, "options": each["options"][-1:]} for each in chain["stages"]]}
            return min(_chain.solve(again, _UNLIMITED, is_single=True).peak_bytes, most), most
        try:
            return min(_chain.solve(chain, 1, is_single=False).peak_bytes, most), most
        except _chain.TooSmall as error:
            return min(error.smallest_bytes or 1, most), most

    def _compile_model(self, budget_bytes: int) -> None:
        """Compile the whole model, with less and less to keep until it is within the budget, and then close to it."""
        if "forward" in self._question.model.__dict__:
            return
        for share in FIRST_SHARES:
            choice = _Choice("model", (share,))
            self._measure(choice)
            if choice in self._fitting(budget_bytes):
                return
        for _ in range(len(FIRST_SHARES), _MODEL_ROUNDS):
            found = {choice.budgets[0]: each for choice, each in self._measured.items() if choice.compiled == "model"}
            peaks = {share: None if each is None else each.peak_bytes for share, each in found.items()}
            after = min((each.after_bytes for each in found.values() if each is not None), default=0)
            wanted = next_share(peaks, budget_bytes, after)
            if wanted is None:
                return
            self._measure(_Choice("model", (wanted,)))

    def _fitting(self, budget_bytes: int) -> dict[_Choice, _Measured]:
        """Return all that was measured within the budget, for this or another one."""
        measured = ((choice, each) for choice, each in self._measured.items() if each is not None)
        return {choice: each for choice, each in measured if each.peak_bytes <= budget_bytes}

    def _fastest(self, budget_bytes: int) -> _Choice | None:
        fitting = self._fitting(budget_bytes)
        return min(fitting, key=lambda choice: fitting[choice].step_ns, default=None)

    def _best(self, budget_bytes: int, seconds: float) -> CheckpointPlan:
        best = self._fastest(budget_bytes)
        if best is None:
            least = min((each.peak_bytes for each in self._measured.values() if each is not None), default=0)
            what = (
                tr("it needs {} ({} bytes)").format(format_size(least), least) if least else tr("it runs out of memory")
            )
            raise VramError(
                tr(
                    "no form of the model was measured within {} ({} bytes): {}; use a larger "
                    "budget, or a smaller batch"
                ).format(format_size(budget_bytes), budget_bytes, what)
            )
        full_peak, full_ns = self._full()
        measured = self._fitting(budget_bytes)[best]
        return CheckpointPlan(
            budget_bytes,
            measured.peak_bytes,
            full_peak,
            measured.step_ns,
            full_ns,
            tuple(self._question.names),
            best.regions,
            best.compiled,
            best.budgets,
            tuple(self._record(choice) for choice in self._measured),
            seconds,
        )

    def _full(self) -> tuple[int, int]:
        """Return the peak and the time without recomputation: measured if that fitted into the GPU, otherwise by the chain."""
        count = len(self._blocks)
        for choice in (_EVERYTHING, _Choice("blocks", (1.0,) * count)):
            measured = self._measured.get(choice)
            if measured is not None:
                return measured.peak_bytes, measured.step_ns
        solved = _chain.solve(self._full_chain, _UNLIMITED, is_single=True)
        return solved.peak_bytes, solved.time_ns

    def _record(self, choice: _Choice) -> CheckpointTrial:
        measured = self._measured[choice]
        return CheckpointTrial(
            str(choice), measured.peak_bytes if measured else None, measured.step_ns if measured else None
        )


def _square_root(count: int) -> _Choice:
    """Regions of √N blocks, which are not compiled: where launching kernels takes the time, each compiled block that runs again takes more of it."""
    return _Choice(None, (), regions_of(count, round(math.sqrt(count))))


def _optimizer_bytes(question: Question) -> tuple[int, int]:
    """Return the optimizer's states that do not exist yet, and its step's peak, both above what is allocated before it. From a dry run."""
    if question.optimizer is None:
        return 0, 0
    with warnings.catch_warnings(), dry_run(gpu_here()):
        warnings.simplefilter("ignore")
        model, optimizer = fake_copy(question.model, question.optimizer)
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.empty_like(parameter)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step()
        return torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before

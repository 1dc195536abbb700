"""The search for compiled plans, with known peaks and times instead of a compiler: also where the planner predicts wrong peaks."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import vram
from vram.planning import _chain, _search
from vram.planning._compiled import Compiler
from vram.planning._measure import Mark, Step
from vram.planning._question import Question
from vram.planning._region import CheckpointRegion

MB, GB = 10**6, 10**9
# Results of blocks with the sizes of a ResNet-50's in MB, the stem first.
OUTPUTS = (103, *[411] * 3, *[206] * 4, *[103] * 6, *[51] * 3)
OPTIONS = {"1.0": (4.0, 1.0), "0.99": (2.5, 1.1), "0.0": (1.0, 1.5)}  # kept, of the output, and time


class Known(_search.CompiledSearch):
    """A model whose peaks and times are those of a chain. The planner is given another, with this error in its peaks.

    Args:
        error_bytes: By how much predictions are too high.
        scale: By what factor blocks are predicted to keep too much.
        shares: Peaks of the whole model, by its budget; None: it runs out of memory.
    """

    def __init__(
        self,
        error_bytes: int = 0,
        scale: float = 1.0,
        shares: dict[float, int | None] | None = None,
        is_small: bool = False,
    ) -> None:
        model = nn.Module()
        model.layers = nn.ModuleList(nn.Linear(1, 1) for _ in OUTPUTS)
        names = [f"layers.{i}" for i in range(len(OUTPUTS))]
        question = Question(model, torch.zeros(1), None, lambda output: output, names, False, True)
        super().__init__(question, torch.device("cpu"), Compiler(), object())
        self._true, self._error_bytes, self._scale = chain(GB, 1.0), error_bytes, scale
        self._shares, self._is_small = shares or {1.0: 100 * GB}, is_small
        self.compiled: list[float] = []  # the whole model with these
        self.measured: list[int | None] = []  # peaks of blocks

    def _make_chains(self) -> None:
        self._chains = {True: chain(GB + self._error_bytes, self._scale)}
        self._full_chain = self._chains[True]

    def _measure_now(self, choice: _search._Choice) -> _search._Measured:
        if choice.compiled == "model":
            self.compiled.append(choice.budgets[0])
            peak = next(peak for share, peak in sorted(self._shares.items()) if choice.budgets[0] <= share)
            if peak is None:
                raise torch.cuda.OutOfMemoryError
            return _search._Measured(peak, 1000, 10**12)
        chosen = copy.deepcopy(self._true)
        for stage, budget in zip(chosen["stages"], choice.budgets, strict=False):  # the last is no block
            stage["options"] = [each for each in stage["options"] if each["name"] == str(budget)]
        solved = _chain.solve(chosen, 1 << 50, is_single=True)
        if self._is_small and solved.peak_bytes > 6 * GB:
            self.measured.append(None)
            raise torch.cuda.OutOfMemoryError
        self.measured.append(solved.peak_bytes)
        return _search._Measured(solved.peak_bytes, 0, solved.time_ns)

    def best(self, budget_bytes: int) -> _chain.Solved:
        return _chain.solve(self._true, budget_bytes, is_single=True)


def chain(fixed_bytes: int, scale: float) -> dict[str, Any]:
    stages: list[dict[str, Any]] = []
    for number, output in enumerate((*OUTPUTS, 0)):
        is_last = number == len(OUTPUTS)
        options = [
            {
                "name": name,
                "kept_bytes": int((1 + (kept - 1) * scale) * output * MB),
                "forward_ns": 10**6,
                "backward_ns": int(2e6 * time),
                "forward_peak_bytes": int((1 + 3 * scale) * output * MB),
                "backward_peak_bytes": int(max((1 + 4 * scale) * output, OUTPUTS[-1]) * MB) + MB,
            }
            for name, (kept, time) in OPTIONS.items()
        ]
        stages.append(
            {
                "name": str(number),
                "output_bytes": output * MB,
                "gradient_bytes": output * MB,
                "parameter_gradient_bytes": 0,
                "forward_ns": 10**11,
                "forward_peak_bytes": output * MB,
                "options": options[:1] if is_last else options,
            }
        )
    return {
        "schema": "vram.chain/1",
        "fixed_bytes": fixed_bytes,
        "input_bytes": 0,
        "input_gradient_bytes": 0,
        "stages": stages,
    }


BUDGETS = [int(each * GB) for each in (4.9, 5.5, 6.3, 6.8, 7.9, 9.0, 10.2, 11.2)]


@pytest.mark.parametrize("error_bytes", [3 * GB, GB // 2, 0, -GB // 2])
def test_predictions_that_are_off_by_a_constant_cost_nothing(error_bytes: int) -> None:
    for budget in BUDGETS:
        search = Known(error_bytes)
        plan = search.plan(budget)
        best = search.best(budget)
        assert plan.peak_bytes <= budget
        assert plan.step_ns == best.time_ns, (budget, plan.peak_bytes, best.peak_bytes)
        assert len(search.measured) <= _search._ROUNDS


@pytest.mark.parametrize("scale", [0.8, 1.25, 1.6])
def test_predictions_of_what_blocks_keep_may_be_wrong(scale: float) -> None:
    for budget in BUDGETS:
        search = Known(scale=scale)
        plan = search.plan(budget)
        best = search.best(budget)
        assert plan.peak_bytes <= budget
        assert plan.peak_bytes > 0.97 * best.peak_bytes
        assert plan.step_ns <= 1.01 * best.time_ns


def test_what_was_measured_for_one_budget_counts_for_others() -> None:
    search = Known(3 * GB)
    for budget in (*BUDGETS[::-1], *BUDGETS):
        plan = search.plan(budget)
        assert plan.peak_bytes <= budget
        fitting = [each for each in plan.tried if each.peak_bytes is not None and each.peak_bytes <= budget]
        assert plan.step_ns == min(each.step_ns for each in fitting if each.step_ns is not None)
    before = len(search.measured)
    search.plan(BUDGETS[3])
    assert len(search.measured) == before


def test_steps_that_run_out_of_memory_do_not_end_the_search() -> None:
    search = Known(3 * GB, is_small=True)
    plan = search.plan(11 * GB)
    assert 5.8 * GB < plan.peak_bytes <= 6 * GB
    assert None in search.measured


def test_the_error_names_the_least_that_was_measured() -> None:
    search = Known(3 * GB)
    least = search.best(4_900 * MB).peak_bytes
    with pytest.raises(vram.VramError, match=r"it needs [\d.]+ GiB \(\d+ bytes\)") as raised:
        search.plan(2 * GB)
    needed = int(str(raised.value).partition("it needs ")[2].partition("(")[2].partition(" ")[0])
    assert 0.8 * least < needed <= least


def tried_models(peaks: dict[float, int | None], budget_bytes: int) -> list[float]:
    """The budgets with which the whole model is compiled, if it has these peaks, 1000 bytes of which are not activations."""
    search = Known(shares=peaks)
    search._compile_model(budget_bytes)
    return search.compiled


def test_the_whole_model_is_tried_with_what_costs_least() -> None:
    peaks: dict[float, int | None] = {1.0: 11_000, 0.99: 7_000, 0.6: 5_900, 0.3: 4_000}
    assert tried_models(peaks, 11_000) == [1.0]
    assert tried_models(peaks, 10_900) == [1.0, 0.99]
    assert tried_models(peaks, 6_000) == [1.0, 0.99, 0.45], "of what 1 keeps"
    assert tried_models({**peaks, 1.0: None}, 6_000) == [1.0, 0.99, 0.74, 0.37], "of what 0.99 keeps, and below"
    assert tried_models({**peaks, 1.0: None, 0.99: None}, 6_000) == [1.0, 0.99, 0.49]


def test_a_share_that_leaves_much_of_the_budget_is_followed_by_larger_ones() -> None:
    assert tried_models({1.0: 11_000, 0.99: 7_000, 0.7: 5_900, 0.5: 4_000}, 6_000) == [1.0, 0.99, 0.45, 0.79, 0.66]


def test_shares_that_change_nothing_end_the_search() -> None:
    assert tried_models({1.0: 11_000, 0.99: 7_000}, 6_000) == [1.0, 0.99, 0.45]


def test_the_whole_of_a_resnet_is_tried_within_the_budget_where_a_third_share_fits() -> None:
    peaks: dict[float, int | None] = {1.0: 11_186_232_320, 0.99: 6_828_010_496, 0.5: 6_287_872_000, 0.2: 6_215_073_792}
    assert tried_models(peaks, 6_287_872_000) == [1.0, 0.99, 0.5], "measured on an H200"
    assert tried_models(peaks, 5_643_502_336)[:3] == [1.0, 0.99, 0.45]


class Measured(_search.CompiledSearch):
    """A GPU of 1,200 MB, and blocks with known sizes, which are watched as they are on a GPU."""

    LIMIT_BYTES, RESULT_BYTES = 1_200 * MB, 10 * MB

    def __init__(self, kept_mb: tuple[int, ...], allows_regions: bool) -> None:
        self._kept_bytes = [each * MB for each in kept_mb]
        model = nn.Module()
        model.layers = nn.ModuleList(nn.Linear(1, 1 + i) for i in range(len(kept_mb)))
        names = [f"layers.{i}" for i in range(len(kept_mb))]
        question = Question(model, torch.zeros(1), None, lambda output: output, names, False, not allows_regions)
        super().__init__(question, torch.device("cpu"), Compiler(), object())

    def _watch(self, budgets: list[float]) -> Step:
        """Each keeps its result, and this share of the rest; a backward pass takes longer if it has to run it again."""
        count, live, time_ns = len(budgets), 100 * MB, 0
        kept = [self.RESULT_BYTES + int(b * each) for b, each in zip(budgets, self._kept_bytes, strict=True)]
        marks = {"start": Mark(live, live, 0)}
        for number, each in enumerate(kept):
            marks[f"before {number}"] = Mark(live, live, time_ns)
            live, time_ns = live + each, time_ns + 10**6
            marks[f"after {number}"] = Mark(live, live, time_ns)
        marks["loss"] = Mark(live, live, time_ns)
        for number in range(count - 1, -1, -1):
            marks[f"gradient {number}"] = Mark(live, live + 10 * MB, time_ns)
            live, time_ns = live - kept[number], time_ns + int(10**6 * (3 - budgets[number]))
        marks["end"] = Mark(live, live + 10 * MB, time_ns)
        if max(mark.peak_bytes for mark in marks.values()) > self.LIMIT_BYTES:
            raise torch.cuda.OutOfMemoryError
        return Step(marks, dict.fromkeys(range(-1, count), self.RESULT_BYTES))

    def _measure_now(self, choice: _search._Choice) -> _search._Measured:
        if choice.compiled == "model":
            raise torch.cuda.OutOfMemoryError
        marks = self._watch(list(choice.budgets)).marks
        return _search._Measured(max(mark.peak_bytes for mark in marks.values()), 0, marks["end"].time_ns)


@pytest.mark.parametrize("allows_regions", [False, True])
@pytest.mark.parametrize(("first_mb", "budget"), [(10_000, 0.0), (2_000, 0.2)])
def test_a_block_that_never_fits_with_a_budget_is_not_planned_with_it(
    allows_regions: bool, first_mb: int, budget: float
) -> None:
    plan = Measured((first_mb, 100, 100), allows_regions).plan(Measured.LIMIT_BYTES)
    assert plan.activation_budgets == (budget, 1.0, 1.0)
    assert plan.saved_bytes >= 0, "what never ran counts as what ran"


@pytest.mark.parametrize("is_faster", [False, True])
def test_where_regions_run_again_those_of_the_square_root_are_tried_uncompiled(is_faster: bool) -> None:
    class Launching(Measured):
        """Launching compiled blocks takes the time."""

        def _measure_now(self, choice: _search._Choice) -> _search._Measured:
            if choice.compiled == "model" or not choice.regions:
                return super()._measure_now(choice)
            compiled_ns = 10**9
            return _search._Measured(150 * MB, 0, compiled_ns if choice.compiled else compiled_ns + (-1) ** is_faster)

    search = Launching((100,) * 9, allows_regions=True)
    plan = search.plan(150 * MB)
    regions = (CheckpointRegion(0, 2), CheckpointRegion(3, 5), CheckpointRegion(6, 8))
    assert search._measured[_search._Choice(None, (), regions)] is not None
    assert (plan.compiled is None) == is_faster
    if is_faster:
        assert plan.regions == regions
        assert plan.activation_budgets == ()
        assert "nothing compiled, 3 regions run again: 143 MiB, 1000.0 ms" in str(plan)
        assert "% of the measured time" in str(plan)
    uncompiled = [choice for choice in search._measured if choice.compiled is None]
    search.plan(1_000 * MB)
    assert [choice for choice in search._measured if choice.compiled is None] == uncompiled


def test_what_fits_without_regions_is_compiled() -> None:
    search = Measured((100,) * 9, allows_regions=True)
    assert search.plan(600 * MB).compiled == "blocks"
    assert all(choice.compiled for choice in search._measured)


def test_choices_are_described_in_the_language_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = _search._Choice("blocks", (1.0, 0.5, 1.0), (CheckpointRegion(0, 1),))
    assert str(choice) == "blocks compiled, 2 with 1, 1 with 0.5, 1 region runs again"
    two = _search._Choice("blocks", (1.0,), (CheckpointRegion(0, 1), CheckpointRegion(2, 2)))
    assert str(two) == "blocks compiled, 1 with 1, 2 regions run again"
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setenv("LANGUAGE", "zh_CN")
    assert str(choice) == "逐块编译，2 个用 1，1 个用 0.5，1 个区域重新计算"

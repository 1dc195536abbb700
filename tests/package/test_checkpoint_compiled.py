"""Compiled plans: torch.compile's own partitioner decides what blocks keep, and the model is measured as it runs.

The tests count the memory of the process, since PyTorch does not count that of the CPU. They compile without inductor's code generation.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from checkpointed_models import Tower
from torch import nn

import vram
from vram.planning import _checkpoint, _live, _search
from vram.planning._compiled import Applied, Compiler
from vram.planning._question import Question
from vram.planning._region import CheckpointRegion
from vram.planning._result import CheckpointPlan

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(600)]  # the compiler takes most of it
TOKENS = torch.arange(16 * 128).reshape(16, 128) % 200
BLOCKS = 4
PARTITIONING = "aot_eager_decomp_partition"


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


class ProcessMemory:
    """What the process has allocated, where it is asked: a peak between two questions is not seen."""

    def __init__(self) -> None:
        self._mallinfo = ctypes.CDLL(None).mallinfo2
        self._mallinfo.restype = _Mallinfo
        self.reset()

    def live_bytes(self) -> int:
        found = self._mallinfo()
        live = int(found.uordblks + found.hblkhd)
        self._peak = max(getattr(self, "_peak", 0), live)
        return live

    def peak_bytes(self) -> int:
        self.live_bytes()
        return self._peak

    def reset(self) -> None:
        self._peak = 0
        self.live_bytes()


MEMORY = ProcessMemory()


def loss(output: torch.Tensor, memory: ProcessMemory = MEMORY) -> torch.Tensor:
    """Look at the memory where a step of these models needs the most."""
    memory.live_bytes()
    logits = output.flatten(0, 1)
    return nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long))


def question(model: nn.Module, optimizer: Any = None, memory: ProcessMemory = MEMORY) -> Question:
    return Question(
        model, TOKENS, optimizer, partial(loss, memory=memory), [f"layers.{i}" for i in range(BLOCKS)], False, False
    )


@pytest.fixture(autouse=True)
def _few_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "_REPETITIONS", 1)


@pytest.fixture(scope="module", name="search")
def _search_of_tower() -> _search.CompiledSearch:
    torch.manual_seed(0)
    return _search.CompiledSearch(question(Tower(BLOCKS)), torch.device("cpu"), Compiler(PARTITIONING), MEMORY)


def kept_bytes(model: nn.Module) -> int:
    """What the last of three steps keeps between forward and backward; garbage of the compiler would be freed meanwhile."""
    for _ in range(3):
        model.zero_grad(set_to_none=True)
        gc.collect()
        before = MEMORY.live_bytes()
        value = loss(model(TOKENS))
        kept = MEMORY.live_bytes() - before
        value.backward()
    return kept


def test_blocks_keep_less_with_smaller_budgets_of_their_own() -> None:
    torch.manual_seed(0)
    model, compiler = Tower(4), Compiler(PARTITIONING)
    found = []
    for budget in (1.0, 0.5, 0.0):
        applied = Applied(model, list(model.layers), "blocks", [budget] * 4, (), compiler)
        found.append(kept_bytes(model))
        applied.remove()
    everything, some, inputs = found
    assert 0.7 * everything > some > inputs > 0
    applied = Applied(model, list(model.layers), "blocks", [1.0, 1.0, 0.0, 0.0], (), compiler)
    assert kept_bytes(model) == pytest.approx((everything + inputs) / 2, rel=0.15)
    applied.remove()
    assert all("forward" not in part.__dict__ for part in model.modules())


def test_another_compiler_compiles_for_its_own_shape_only() -> None:
    inputs: list[Any] = []

    def backend(graph: Any, given: Any) -> Any:
        inputs.extend(given)
        return graph

    for batch in (4, 8):
        Compiler(backend).forward(nn.Linear(2, 2), 1.0)(torch.zeros(batch, 2))
    assert all(isinstance(each, torch.Tensor) for each in inputs), "dynamic shapes are inputs, too"


class Convolutions(nn.Module):
    """Two convolutions with normalization, whose results cost little to compute again."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        parts = [(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()) for _ in range(2)]
        self.body = nn.Sequential(*(part for each in parts for part in each))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.body(x)
        return result


def saved_and_repeated(budget: float) -> tuple[int, int]:
    """What a compiled block saves, and how many convolutions run again in its backward pass."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    saved, repeated = [], []

    def forward(graph: Any, _inputs: Any) -> Any:
        (returned,) = (node.args[0] for node in graph.graph.nodes if node.op == "output")
        values = [node.meta["val"] for node in returned if node is not None and node.op != "placeholder"]
        saved.append(sum(value.untyped_storage().nbytes() for value in values))
        return graph.forward

    def backward(graph: Any, _inputs: Any) -> Any:
        repeated.append(sum(node.target is torch.ops.aten.convolution.default for node in graph.graph.nodes))
        return graph.forward

    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        decompositions=select_decomp_table,
        partition_fn=min_cut_rematerialization_partition,
    )
    block = Convolutions()
    Compiler(backend).forward(block, budget)(torch.randn(8, 16, 16, 16, requires_grad=True)).sum().backward()
    return saved[0], repeated[0]


def test_a_budget_of_blocks_keeps_less_and_runs_no_convolution_again() -> None:
    found = {budget: saved_and_repeated(budget) for budget in _search._BUDGETS}
    (everything, none), (inputs, all_again) = found[1.0], found[0.0]
    assert none == 0
    assert all_again == 2
    least = min(saved for saved, repeated in found.values() if repeated == 0)
    assert least - inputs < 0.7 * (everything - inputs)


@pytest.mark.parametrize("choice", ["blocks", "blocks and regions", "model"])
def test_gradients_are_the_same(choice: str) -> None:
    torch.manual_seed(0)
    plain = Tower(BLOCKS).eval()  # without dropout, whose numbers compiled code draws in its own way
    model = copy.deepcopy(plain)
    regions = (CheckpointRegion(0, 3, parts=(CheckpointRegion(1, 2),)),) if "regions" in choice else ()
    budgets = [0.3] if choice == "model" else [1.0, 0.5, 0.0, 0.5]
    compiled = choice.partition(" ")[0]
    applied = Applied(model, list(model.layers), compiled, budgets, regions, Compiler(PARTITIONING))
    for each in (plain, model):
        loss(each(TOKENS)).backward()
    for parameter, twin in zip(plain.parameters(), model.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, twin.grad, rtol=1e-5, atol=1e-7)
    applied.remove()
    assert "forward" not in model.__dict__


def test_plans_are_measured_within_their_budgets(search: _search.CompiledSearch) -> None:
    full = search.plan(1 << 50)
    assert full.compiled == "model"
    assert full.activation_budgets == (1.0,)
    assert full.peak_bytes == full.full_peak_bytes
    base = MEMORY.live_bytes()
    for share in (0.7, 0.4):
        budget = base + int((full.peak_bytes - base) * share)
        plan = search.plan(budget)
        assert plan.peak_bytes <= plan.budget_bytes == budget
        fitting = [each for each in plan.tried if each.peak_bytes is not None and each.peak_bytes <= budget]
        assert plan.step_ns == min(each.step_ns for each in fitting if each.step_ns is not None)
        assert any("blocks compiled" in each.way for each in plan.tried)
        assert any("model compiled" in each.way for each in plan.tried)
        assert "activation_memory_budget" in str(plan)
        assert pickle.loads(pickle.dumps(plan)) == plan


def test_nothing_that_fits_is_an_error_with_the_least_that_was_measured(search: _search.CompiledSearch) -> None:
    with pytest.raises(vram.VramError, match=r"within 1 MiB .*: it needs [\d.]+ MiB \(\d+ bytes\); use a larger"):
        search.plan(1 << 20)


def test_the_model_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    model = Tower(BLOCKS)
    model.embed.weight.grad = torch.ones_like(model.embed.weight)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    searched = _search.CompiledSearch(question(model), torch.device("cpu"), Compiler(PARTITIONING), MEMORY)
    searched.plan(1 << 50)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.embed.weight.grad, torch.ones_like(model.embed.weight))
    assert model.head.weight.grad is None
    assert all("forward" not in part.__dict__ for part in model.modules())


class Scarce(ProcessMemory):
    """A GPU that is too small for steps that keep more than this."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()
        self.limit_bytes = limit_bytes

    def live_bytes(self) -> int:
        live = super().live_bytes()
        if live > getattr(self, "limit_bytes", live):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return live


def test_what_does_not_fit_into_the_gpu_is_measured_in_parts() -> None:
    torch.manual_seed(0)
    large = _search.CompiledSearch(question(Tower(BLOCKS)), torch.device("cpu"), Compiler(PARTITIONING), MEMORY)
    full = large.plan(1 << 50).peak_bytes
    gc.collect()
    base = MEMORY.live_bytes()
    memory = Scarce(base + int(0.6 * (full - base)))
    model = Tower(BLOCKS)
    scarce = _search.CompiledSearch(question(model, memory=memory), torch.device("cpu"), Compiler(PARTITIONING), memory)
    scarce._measured[_search._EVERYTHING] = None
    plan = scarce.plan(memory.limit_bytes)
    assert plan.peak_bytes <= memory.limit_bytes

    assert plan.full_peak_bytes > memory.limit_bytes, "by the chain"
    assert any(each.peak_bytes is None for each in plan.tried)
    assert "did not run" in str(plan)


def test_a_choice_leaves_no_tensors_behind() -> None:
    torch.manual_seed(0)
    searched = _search.CompiledSearch(question(Tower(BLOCKS)), torch.device("cpu"), Compiler(PARTITIONING), MEMORY)
    regions = tuple(CheckpointRegion(i, i) for i in range(BLOCKS))
    choices = [_search._Choice("blocks", (1.0,) * BLOCKS, regions[:count]) for count in (BLOCKS, BLOCKS - 1)]
    left = []
    gc.disable()
    try:
        for choice in choices:
            searched._measure(choice)
            searched._question.model.zero_grad(set_to_none=True)
            left.append(sum(isinstance(each, torch.Tensor) for each in gc.get_objects()))
    finally:
        gc.enable()
    gc.collect()
    assert left[-1] == sum(isinstance(each, torch.Tensor) for each in gc.get_objects())


def test_states_that_the_optimizer_makes_later_count() -> None:
    model = Tower(BLOCKS)
    states, peak = _search._optimizer_bytes(question(model, torch.optim.AdamW(model.parameters())))
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert states == pytest.approx(2 * parameters, rel=0.05)
    assert peak > states
    assert _search._optimizer_bytes(question(model)) == (0, 0)
    used = torch.optim.SGD(model.parameters(), momentum=0.9)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    used.step()
    assert _search._optimizer_bytes(question(model, used))[0] == 0


def test_a_compiled_plan_is_applied_and_removed() -> None:
    names = tuple(f"layers.{i}" for i in range(2))
    plan = CheckpointPlan(1 << 30, 0, 0, 0, 0, names, (), "blocks", (1.0, 0.0))
    model = Tower(2)
    applied = _checkpoint.Checkpointed(model, plan, Compiler(PARTITIONING))
    loss(model(TOKENS)).backward()
    with pytest.raises(vram.VramError, match="checkpointed already"):
        vram.checkpoint(model, TOKENS, "1GiB")
    assert "layers.1: compiled with activation_memory_budget 0" in str(applied)
    applied.remove()
    assert all({"forward", "_vram_regions"}.isdisjoint(part.__dict__) for part in model.modules())


def compiled_block(model: Tower) -> Tower:
    block: Any = model.layers[0]
    block.forward = torch.compile(block.forward)
    return model


def own_forward(model: Tower) -> Tower:
    model.layers[0].forward = model.layers[0].forward
    return model


UNCOMPILED = CheckpointPlan(1 << 30, 0, 0, 0, 0, ("layers.0", "layers.1"), ())


def applied(**changes: Any) -> Any:
    return vram.checkpoint(Tower(2), plan=replace(UNCOMPILED, **changes))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: vram.checkpoint(Tower(2), TOKENS, "1GiB", compile=True), vram.VramError, "this one is on cpu"),
        (lambda: vram.plan_checkpoints(Tower(2), TOKENS, "1GiB", compile=True), vram.VramError, "this one is on cpu"),
        (lambda: vram.checkpoint(compiled_block(Tower(2)), plan=UNCOMPILED), vram.VramError, "layers.0 is compiled"),
        (lambda: Compiler().forward(own_forward(Tower(2)).layers[0], 1.0), vram.VramError, "forward of a Layer is replaced"),
        (lambda: applied(compiled="blocks", activation_budgets=(1.0,)), ValueError, "2 with compiled='blocks', got 1"),
        (lambda: applied(activation_budgets=(1.0, 0.0)), ValueError, "0 with compiled=None, got 2"),
        (lambda: applied(compiled="model", activation_budgets=(1.0, 0.0)), ValueError, "1 with compiled='model', got 2"),
        (lambda: applied(compiled="all"), ValueError, "got 'all'"),
        (lambda: applied(compiled="model", activation_budgets=(1.0,), regions=(CheckpointRegion(0, 1),)), ValueError,
         "no regions"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(call: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()

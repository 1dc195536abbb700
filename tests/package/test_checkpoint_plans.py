"""Plans: within the budget in a dry run, readable, removable; and errors that say what to do."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from checkpointed_models import Tower
from torch import nn

import vram
from vram.dry import _clock, dry_run
from vram.planning import _chain, _live
from vram.planning._measure import Mark, Step, watched_step
from vram.planning._plan import plan_checkpoints
from vram.planning._region import CheckpointRegion
from vram.planning._regions import Regions
from vram.planning._result import CheckpointPlan

TOKENS = torch.arange(16 * 128).reshape(16, 128) % 200


def loss(output: torch.Tensor) -> torch.Tensor:
    logits = output.flatten(0, 1)
    return nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


@pytest.fixture(scope="module")
def full_bytes() -> int:
    plan = plan_checkpoints(Tower(), TOKENS, "1TiB", loss=loss)
    assert plan.regions == ()
    assert plan.peak_bytes == plan.full_peak_bytes
    assert plan.added_share == 0
    return plan.full_peak_bytes


@pytest.mark.filterwarnings("ignore")
def peak_of(plan: CheckpointPlan | None, *, casts: bool = False) -> int:
    """The peak of the program itself in a dry run, with its own model on the pretended GPU."""
    with dry_run("H200"):
        model = Tower().cuda()
        if plan is not None:
            vram.checkpoint(model, plan=plan)
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            torch.cuda.reset_peak_memory_stats()
            with torch.autocast("cuda", torch.bfloat16, enabled=casts):
                value = loss(model(TOKENS.cuda()))
            value.backward()
        return torch.cuda.max_memory_allocated()


def test_peaks_of_a_dry_run_are_within_the_budget(full_bytes: int) -> None:
    assert peak_of(None) == full_bytes
    added = []
    for share in (0.9, 0.8, 0.7, 0.65):
        plan = plan_checkpoints(Tower(), TOKENS, int(full_bytes * share), loss=loss)
        assert plan.peak_bytes <= plan.budget_bytes == int(full_bytes * share)
        assert 0.99 * plan.peak_bytes <= peak_of(plan) <= plan.peak_bytes  # planning holds one activation longer
        assert plan.saved_bytes == full_bytes - plan.peak_bytes > 0
        added.append(plan.added_share)
    assert added[0] > 0
    assert added == sorted(added)
    assert added[-1] < 0.34, "a whole repetition of the forward takes a third"


class Copying(nn.Module):
    """Keeps a copy of its input, as compiled convolutions do with another memory format."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.up(x.clone())
        return result


def test_results_that_are_freed_in_the_forward_pass_count_once() -> None:
    count, result = 8, 4096 * 256 * 4
    with dry_run("H200"):
        model, sample = nn.Sequential(*(Copying() for _ in range(count))).cuda(), torch.empty(4096, 256).cuda()
        clock = iter(range(10**6)).__next__
        for _ in range(2):
            model.zero_grad(set_to_none=True)
            step = watched_step(list(model), lambda: model(sample).sum(), clock)
        ways = {"keep": _chain.costs_of(step, count)}
    document = _chain.chain([str(i) for i in range(count)], step, ways, ways["keep"], is_single=True)
    peak = max(mark.peak_bytes for mark in step.marks.values())
    assert peak > count * result
    assert abs(_chain.solve(document, 1 << 50, is_single=True).peak_bytes - peak) < 1.1 * result


def test_blocks_keep_less_in_regions_and_outside() -> None:
    count, mib = 8, 1 << 20
    costs = {
        "all": _chain.Costs(12 * mib, 10, 20, 12 * mib, 16 * mib, 0),
        "less": _chain.Costs(6 * mib, 10, 24, 12 * mib, 17 * mib, 0),
    }
    after = _chain.Costs(mib, 1, 1, mib, 2 * mib, 0)
    marks = {name: Mark(mib, mib, 0) for name in ("before 0", *(f"gradient {i}" for i in range(-1, count)))}
    step = Step(marks, dict.fromkeys(range(-1, count), mib))

    def solved(budget: int, *names: str, is_single: bool) -> _chain.Solved:
        ways = {name: [costs[name]] * count + [after] for name in names}
        document = _chain.chain(list(map(str, range(count))), step, ways, ways[names[-1]], is_single=is_single)
        return _chain.solve(document, budget, is_single=is_single)

    for budget in (56 * mib, 45 * mib):
        with pytest.raises(_chain.TooSmall):
            solved(budget, "all", "less", is_single=True)
        both, regions_only = (solved(budget, *names, is_single=False) for names in (("all", "less"), ("all",)))
        assert both.peak_bytes <= budget
        assert both.regions
        assert "less" in both.options
        assert both.time_ns < regions_only.time_ns
    unlimited = solved(1 << 50, "all", "less", is_single=False)
    assert (unlimited.regions, unlimited.options) == ((), ("all",) * count)


def test_an_applied_plan_gives_the_same_gradients_and_can_be_removed(full_bytes: int) -> None:
    torch.manual_seed(0)
    plain = Tower()
    model = copy.deepcopy(plain)
    applied = vram.checkpoint(model, TOKENS, int(full_bytes * 0.7), loss=loss)
    with pytest.raises(vram.VramError, match="checkpointed already"):
        vram.checkpoint(model, TOKENS, int(full_bytes * 0.7))
    for each in (plain, model):
        torch.manual_seed(1)
        loss(each(TOKENS)).backward()
    for parameter, twin in zip(plain.parameters(), model.parameters(), strict=True):
        assert parameter.grad is not None
        assert twin.grad is not None
        assert torch.equal(parameter.grad, twin.grad)
    assert "layers." in str(applied)
    assert "of a budget of" in str(applied)
    applied.remove()
    applied.remove()
    assert all({"forward", "_vram_regions"}.isdisjoint(part.__dict__) for part in model.modules())
    assert pickle.loads(pickle.dumps(applied.plan)) == applied.plan


def test_planning_leaves_the_model_alone(full_bytes: int) -> None:
    model = Tower()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    plan_checkpoints(model, TOKENS, int(full_bytes * 0.7), loss=loss)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_measured_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "_REPETITIONS", 1)
    model = Tower(blocks=4)
    model.embed.weight.grad = torch.ones_like(model.embed.weight)
    state = torch.get_rng_state()
    full = plan_checkpoints(model, TOKENS, "1TiB", loss=loss).full_peak_bytes
    plan = plan_checkpoints(model, TOKENS, int(full * 0.8), loss=loss, cost="measured")
    assert plan.peak_bytes <= int(full * 0.8)
    assert plan.full_step_ns > 1_000_000, "of this CPU, not of a GPU"
    assert torch.equal(model.embed.weight.grad, torch.ones_like(model.embed.weight))
    assert torch.equal(state, torch.get_rng_state())


def test_an_optimizer_counts(full_bytes: int) -> None:
    model = Tower()
    optimizer = torch.optim.AdamW(model.parameters())
    with_states = plan_checkpoints(model, TOKENS, "1TiB", loss=loss, optimizer=optimizer).full_peak_bytes
    parameters = sum(p.numel() * 4 for p in model.parameters())
    assert with_states - full_bytes == pytest.approx(2 * parameters, rel=0.05)
    assert not optimizer.state


def test_autocast_counts(full_bytes: int) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        plan = plan_checkpoints(Tower(), TOKENS, "1TiB", loss=loss)
    assert plan.full_peak_bytes < 0.9 * full_bytes


def test_cast_parameters_of_a_region_do_not_outlive_the_forward_pass() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        full = plan_checkpoints(Tower(), TOKENS, "1TiB", loss=loss).full_peak_bytes
        plan = plan_checkpoints(Tower(), TOKENS, int(full * 0.8), loss=loss)
        assert torch.is_autocast_enabled("cpu")
        assert torch.autocast_increment_nesting() == 2
        torch.autocast_decrement_nesting()
    assert plan.regions
    assert 0.99 * plan.peak_bytes <= peak_of(plan, casts=True) <= plan.peak_bytes


def test_single_blocks(full_bytes: int) -> None:
    plan = plan_checkpoints(Tower(), TOKENS, int(full_bytes * 0.7), loss=loss, single_blocks=True)
    assert plan.regions
    assert all(region.first == region.last for region in plan.regions)


def test_chosen_blocks(full_bytes: int) -> None:
    model = Tower()
    plan = plan_checkpoints(model, TOKENS, int(full_bytes * 0.8), loss=loss, blocks=list(model.layers)[2:])
    assert plan.names == tuple(f"layers.{i}" for i in range(2, 8))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: plan_checkpoints(nn.Linear(2, 2), TOKENS, "1GiB"), vram.VramError, r"no list of at least two blocks .* blocks="),
        (lambda: plan_checkpoints("model", TOKENS, "1GiB"), TypeError, "torch.nn.Module, got str"),  # type: ignore[arg-type]
        (lambda: plan_checkpoints(Tower(), 5, "1GiB"), TypeError, "expected sample to be .* got int"),
        (lambda: plan_checkpoints(Tower(), {"tokens": [1]}, "1GiB"), TypeError, "at least one tensor"),
        (lambda: plan_checkpoints(Tower(), TOKENS, "20"), ValueError, "write the unit"),
        (lambda: plan_checkpoints(Tower(), TOKENS, "1GiB", cost="time"), ValueError, "'flops', 'measured', got 'time'"),
        (lambda: plan_checkpoints(Tower(), TOKENS, "2MiB", loss=loss), vram.VramError, r"it needs about .* use a larger budget"),
        (lambda: vram.checkpoint(Tower(), TOKENS), ValueError, "either sample and budget .* or plan alone"),
        (lambda: plan_checkpoints(torch.compile(Tower()), TOKENS, "1GiB"), vram.VramError, "is compiled, .* compile=True"),  # type: ignore[arg-type]
        (lambda: plan_checkpoints(Tower(), TOKENS, "1GiB", blocks=[nn.Linear(2, 2)]), ValueError, "modules of the model"),
    ],
)  # fmt: skip
def test_bad_input(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_blocks_out_of_order_are_refused() -> None:
    class Backwards(Tower):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            for layer in reversed(self.layers):
                x = layer(x)
            result: torch.Tensor = x
            return result

    with pytest.raises(vram.VramError, match="block 7 was called when block 0 was expected"):
        plan_checkpoints(Backwards(), TOKENS, "1GiB")


def test_the_smallest_budget_that_an_error_names_suffices() -> None:
    with pytest.raises(vram.VramError) as error:
        plan_checkpoints(Tower(), TOKENS, "2MiB", loss=loss)
    least = int(str(error.value).partition("about ")[2].partition("(")[2].partition(" bytes")[0])
    assert plan_checkpoints(Tower(), TOKENS, int(least * 1.05), loss=loss).regions


def plan_without_memory(width: int, share: float) -> CheckpointPlan:
    with torch.device("meta"):
        model, tokens = Tower(blocks=4, width=width), torch.zeros(64, 128, dtype=torch.long)
    full = plan_checkpoints(model, tokens, 1 << 60, loss=loss).full_peak_bytes
    return plan_checkpoints(model, tokens, int(full * share), loss=loss)


def test_products_are_kept_where_that_is_worth_the_time_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator of a block that keeps products costs the host time, more than running a small block again."""
    large = plan_without_memory(8192, 0.95)
    assert any(region.keeps_products for region in large.regions)
    small = plan_without_memory(256, 0.8)
    assert small.regions
    assert not any(region.keeps_products for region in small.regions)
    monkeypatch.setattr(_clock, "selective_ns", lambda: 0)
    assert any(region.keeps_products for region in plan_without_memory(256, 0.8).regions)


def test_no_plan_is_slower_than_running_every_block_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(document: dict[str, Any], _budget_bytes: int, *, is_single: bool) -> Any:
        count = len(document["stages"]) - 1
        regions = tuple(CheckpointRegion(i, i) for i in range(count))
        return _chain.Solved(() if is_single else regions, ("products",) * count if is_single else (), 1 << 60, 0)

    monkeypatch.setattr(_chain, "solve", slow)
    plan = plan_without_memory(256, 0.8)
    assert plan.regions == tuple(CheckpointRegion(i, i) for i in range(4))
    assert plan.peak_bytes <= plan.budget_bytes
    assert plan.full_step_ns < plan.step_ns < 2 * plan.full_step_ns


def test_operators_of_regions_that_keep_products_are_counted() -> None:
    model = Tower(blocks=2)
    found = {}
    for keeps_products in (False, True):
        regions = Regions(model, list(model.layers), tuple(CheckpointRegion(i, i, keeps_products) for i in range(2)))
        result = loss(model(TOKENS))
        forward = regions.selective_operators
        result.backward()
        found[keeps_products] = forward, regions.selective_operators
        regions.remove()
    assert found[False] == (0, 0)
    forward, both = found[True]
    assert forward > 2 * 6
    assert both == 2 * forward, "again in the backward pass"

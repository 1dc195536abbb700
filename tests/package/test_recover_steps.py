"""vram.micro_batches with the steps of recover_steps.py, where memory runs out at each allocation: gradients are equal, or it refuses.

The quick run fails some of the allocations of each step, spread from the first to the last; VRAM_DEEP=1 fails each of
them, and pairs of them.
"""

from __future__ import annotations

import functools
import os
import random
from typing import Any

import pytest
import recover_steps_drawn  # noqa: F401  adds to STEPS, as the next four do
import recover_steps_kept  # noqa: F401
import recover_steps_layers  # noqa: F401
import recover_steps_losses  # noqa: F401
import recover_steps_trained  # noqa: F401
import torch
from oom_injection import relative_difference
from recover_allocations import Allocations
from recover_steps import DRAWS, EQUAL, REFUSED, SAMPLES, STEPS, Kind, Training
from recover_steps_losses import with_balance_loss

import vram

DEEP = bool(os.environ.get("VRAM_DEEP"))
QUICK_FAILURES = 5  # of each step
torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("quick_collections")


def made(kind: Kind) -> Training:
    torch.manual_seed(3)
    random.seed(3)
    return kind.make()


def run(training: Training, **more: Any) -> vram.MicroBatches:
    torch.manual_seed(4)
    return vram.micro_batches(training.batch, training.step, model=training.model, **training.options, **more)


def outcome_of(training: Training, injected: Allocations) -> vram.MicroBatches | vram.VramError:
    try:
        with injected:
            return run(training)
    except vram.VramError as error:
        return error


def run_whole(training: Training) -> torch.Tensor:
    """Without vram."""
    torch.manual_seed(4)
    loss = training.step(training.batch)
    training.options.get("backward", lambda loss: loss.backward())(loss)
    return loss.detach()


def dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


def gradients(training: Training) -> list[torch.Tensor | None]:
    return [None if p.grad is None else dense(p.grad.detach().clone()) for p in training.trained()]


def assert_equal(training: Training, other: Training, within: float) -> None:
    """Of all gradients together by their norm; of each by ten times that, if it is more than a rounding of the others."""
    pairs = list(zip(gradients(training), gradients(other), strict=True))
    assert [one is None for one, _ in pairs] == [expected is None for _, expected in pairs]
    found = torch.cat([torch.view_as_real(one + 0j).flatten().double() for one, _ in pairs if one is not None])
    expected = torch.cat([torch.view_as_real(one + 0j).flatten().double() for _, one in pairs if one is not None])
    assert relative_difference(found, expected) <= within
    for one, of_other in pairs:
        if one is not None and of_other is not None and of_other.norm() > 1e-3 * expected.norm():
            assert float((one - of_other).norm()) <= 10 * within * float(of_other.norm())
    for buffer, of_other in zip(training.buffers(), other.buffers(), strict=True):
        assert torch.allclose(buffer, of_other, rtol=max(within, 1e-6), atol=1e-7)


def assert_as_before(training: Training, before: Training) -> None:
    for one, other in zip(gradients(training), gradients(before), strict=True):
        assert (one is None) == (other is None)
        assert one is None or other is None or torch.equal(one, other)
    for buffer, other in zip(training.buffers(), before.buffers(), strict=True):
        assert torch.equal(buffer, other)


def failures_of(kind: Kind) -> list[tuple[int, ...]]:
    """At which allocations memory runs out, of those that the whole batch makes."""
    with Allocations() as counted:
        try:
            run(made(kind))
        except vram.VramError:
            counted.count = 2  # refused before it began
    every = range(1, counted.count + 1)
    if DEEP:
        return [*((one,) for one in every), *((one, other) for one in every[::4] for other in every[::5])]
    spread = {1 + (counted.count - 1) * step // (QUICK_FAILURES - 1) for step in range(QUICK_FAILURES)}
    return [*((one,) for one in sorted(spread)), (1, 1 + counted.count // 2)]


def expected_of(kind: Kind, size: int) -> Training:
    """What a run leaves that has room for so many samples from the beginning."""
    expected = made(kind)
    if kind.expected != DRAWS or size == SAMPLES:
        run_whole(expected)
        return expected
    inner = expected.step

    def limited(part: Any) -> torch.Tensor:
        if len(part["x"]) > size:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return inner(part)

    expected.step = limited
    run(expected, check=False)
    return expected


@pytest.mark.parametrize("factor", [1e-2, 3e-4, 1e-4, 1e-5])
def test_a_term_that_cannot_be_split_is_refused_or_as_small_as_rounding(factor: float) -> None:
    """A balance loss of each size: what docs/recover.md says that the comparison resolves in fp32."""
    kind = Kind(functools.partial(with_balance_loss, factor), REFUSED if factor > 2e-4 else EQUAL, within=2e-5)
    training = made(kind)
    inner = training.step

    def limited(part: Any) -> torch.Tensor:
        if len(part["x"]) > SAMPLES // 2:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return inner(part)

    training.step = limited
    if kind.expected == REFUSED:
        with pytest.raises(vram.VramError, match="split"):
            run(training)
        assert_as_before(training, made(kind))
    else:
        run(training)
        assert_equal(training, expected_of(kind, SAMPLES), kind.within)


@pytest.mark.timeout(1800 if DEEP else 180)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_runs_out_of_memory_anywhere_is_equal_or_refused(name: str) -> None:
    kind = STEPS[name]
    outcomes = set()
    for failures in failures_of(kind):
        training, injected = made(kind), Allocations(*failures)
        done = outcome_of(training, injected)
        if isinstance(done, vram.VramError):
            assert kind.expected == REFUSED, (failures, str(done))
            assert_as_before(training, made(kind))
            outcomes.add(REFUSED)
            continue
        if not injected.raised:
            continue  # something is made at the first use only
        assert kind.expected != REFUSED, (failures, done)
        assert_equal(training, expected_of(kind, done.size), kind.within if kind.expected == EQUAL else 1e-6)
        if kind.expected == EQUAL:
            assert float(done.loss) == pytest.approx(float(run_whole(made(kind))), rel=max(kind.within, 1e-6), abs=1e-6)
        outcomes.add(EQUAL)
    assert len(outcomes) == 1


@pytest.mark.parametrize("name", [name for name, kind in STEPS.items() if kind.expected != REFUSED])
def test_a_step_that_fits_is_left_as_it_is(name: str) -> None:
    training, other = made(STEPS[name]), made(STEPS[name])
    assert run(training).count == 1
    run_whole(other)
    for one, expected in zip(gradients(training), gradients(other), strict=True):
        assert (one is None) == (expected is None)
        assert one is None or expected is None or torch.equal(one, expected)


@pytest.mark.parametrize("name", [name for name, kind in STEPS.items() if isinstance(kind.make().batch, dict)])
@pytest.mark.parametrize(("largest", "without_graph"), [(4, False), (2, False), (1, False), (4, True), (1, True)])
def test_a_step_with_room_for_few_samples_is_equal_or_refused(name: str, largest: int, without_graph: bool) -> None:
    """Not even the whole batch's forward fits then, or only without a graph."""
    kind = STEPS[name]
    training = made(kind)
    inner, before = training.step, made(kind)

    def limited(part: Any) -> torch.Tensor:
        if len(part["x"]) > largest and (torch.is_grad_enabled() or not without_graph):
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return inner(part)

    training.step = limited
    try:
        done = run(training)
    except (vram.VramError, ValueError):  # torch.nn.functional.batch_norm says itself that one sample is too few
        assert kind.expected == REFUSED or largest == 1  # of one sample at a time nothing can be compared
        assert_as_before(training, before)
        return
    assert kind.expected != REFUSED, done
    if kind.expected == EQUAL:
        assert_equal(training, expected_of(kind, done.size), kind.within)

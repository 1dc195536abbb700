"""vram.micro_batches in a real training loop on the CPU: equal gradients, no leftovers, correct refusals."""

from __future__ import annotations

import copy
import gc
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from oom_injection import Injector
from small_training import Batch, Net, assert_equal_gradients, limit, loss_of, make_batch, reference
from torch import nn

import vram


@pytest.fixture
def frozen() -> Iterator[None]:
    """What PyTorch itself has made (imports at the first use, too) is left out of collections: they'd take the time."""
    with Injector():
        model = Net()
        loss_of(model, make_batch(4)).backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    del model
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def live_tensors() -> int:
    gc.collect()
    return sum(1 for item in gc.get_objects() if isinstance(item, torch.Tensor))


def training_loop(failures_of: Any, batches: int) -> tuple[int, int, int]:
    """Operators that failed, tensors that outlived a batch, tensors alive in the end (more than in the beginning)."""
    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    before, raised, outlived = live_tensors(), 0, 0
    for _ in range(batches):
        batch = make_batch(random.randint(4, 12))  # two failures leave micro-batches of 1 or more
        expected = reference(model, batch)
        optimizer.zero_grad()
        with Injector(failures_of()) as injector:
            compared = random.random() < 0.2  # it takes as long as the rest
            vram.micro_batches(batch, lambda part: loss_of(model, part), model=nn.Sequential(model), check=compared)
        assert_equal_gradients(model, expected)
        optimizer.step()
        optimizer.zero_grad()
        raised += injector.raised
        outlived += injector.alive()
        del expected, batch, injector
    return raised, outlived, live_tensors() - before


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("frozen")
def test_a_thousand_failures_leak_nothing_and_change_no_gradient() -> None:
    random.seed(3)
    with Injector() as counter:
        model = Net()
        loss_of(model, make_batch(4)).backward()  # type: ignore[no-untyped-call]
    operators = counter.operators  # of forward and backward together
    calm = training_loop(list, 3)
    assert calm[0] == 0

    def failures() -> list[int]:  # a first anywhere; the next may hit a later micro-batch of the next attempt
        return [random.randint(1, operators)] + [random.randint(1, 2 * operators)] * random.randint(0, 1)

    raised, outlived, left = training_loop(failures, 850)
    assert raised >= 1000
    assert outlived == 0
    assert left == calm[2]


@pytest.mark.usefixtures("frozen")
def test_a_failure_at_each_operator_is_undone() -> None:
    model = Net()
    batch = make_batch(6)
    expected = reference(model, batch)
    with Injector() as counter:
        vram.micro_batches(batch, lambda part: loss_of(model, part), model=nn.Sequential(model))
    for operator in range(1, counter.operators + 1):
        model.zero_grad()
        with Injector([operator]) as injector:
            done = vram.micro_batches(batch, lambda part: loss_of(model, part), model=nn.Sequential(model))
        assert (injector.raised, done.size, done.count, done.retries) == (1, 3, 2, 1)
        assert_equal_gradients(model, expected)


def test_without_failure_the_gradients_are_the_same_bits() -> None:
    model, batch = Net(), make_batch(7)
    expected = reference(model, batch)
    done = vram.micro_batches(batch, lambda part: loss_of(model, part), model=model)
    assert (done.size, done.count, done.retries, done.notes) == (7, 1, 0, ())
    for parameter, grad in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, grad)


def test_an_uneven_last_part_counts_by_its_samples() -> None:
    model, batch, check = Net(), make_batch(10), limit(4)
    sizes = []

    def step(part: Batch) -> torch.Tensor:
        check(part)
        sizes.append(len(part["labels"]))
        return loss_of(model, part)

    expected = reference(model, batch)
    done = vram.micro_batches(batch, step, model=model, check=False)
    assert sizes == [3, 3, 3, 1]  # 10 and 5 failed
    assert_equal_gradients(model, expected)
    assert float(done.loss) == pytest.approx(float(loss_of(model, batch).detach()), rel=1e-6)


def test_earlier_gradients_survive_and_are_added_to() -> None:
    model, first, second = Net(), make_batch(5), make_batch(8)
    expected = reference(model, first, second)
    loss_of(model, first).backward()  # type: ignore[no-untyped-call]
    accumulated = [p.grad for p in model.parameters()]
    with Injector([30, 60]):
        vram.micro_batches(second, lambda part: loss_of(model, part), model=model)
    assert_equal_gradients(model, expected)
    for parameter, grad in zip(model.parameters(), accumulated, strict=True):
        assert parameter.grad is grad  # in place: views of DDP's buckets stay such


def test_an_error_of_the_step_passes_and_earlier_gradients_are_as_before() -> None:
    model, batch = Net(), make_batch(4)
    loss_of(model, batch).backward()  # type: ignore[no-untyped-call]
    before = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    calls = []

    def step(part: Batch) -> torch.Tensor:
        calls.append(part)
        loss_of(model, part).backward()  # type: ignore[no-untyped-call]
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        vram.micro_batches(batch, step, model=model)
    assert len(calls) == 1  # a device that is broken is never tried again
    for parameter, grad in zip(model.parameters(), before, strict=True):
        assert parameter.grad is not None
        assert grad is not None
        assert torch.equal(parameter.grad, grad)


def test_token_means_take_a_weight() -> None:
    torch.manual_seed(2)
    head = nn.Linear(4, 3)
    batch = {"x": torch.randn(6, 5, 4), "labels": torch.randint(0, 3, (6, 5))}
    batch["labels"][0, 1:] = batch["labels"][3:] = -100  # 1, 5, 5, 0, 0, 0 tokens count

    def step(part: Batch) -> torch.Tensor:
        limit(2)(part)
        return nn.functional.cross_entropy(head(part["x"]).flatten(0, 1), part["labels"].flatten())

    nn.functional.cross_entropy(head(batch["x"]).flatten(0, 1), batch["labels"].flatten()).backward()  # type: ignore[no-untyped-call]
    expected = [p.grad for p in head.parameters() if p.grad is not None]
    head.zero_grad()
    vram.micro_batches(batch, step, model=head, weight=lambda part: (part["labels"] != -100).sum())
    assert_equal_gradients(head, expected)
    head.zero_grad()
    vram.micro_batches(batch, step, model=nn.Sequential(head), weight=lambda part: (part["labels"] != -100).sum())
    assert_equal_gradients(head, expected)
    with pytest.raises(vram.VramError, match="must be more than 0"):
        vram.micro_batches(batch, step, model=head, weight=lambda _part: 0)


def test_sums_are_added() -> None:
    model, batch = Net(), make_batch(6)
    expected = [6 * grad for grad in reference(model, batch)]

    def step(part: Batch) -> torch.Tensor:
        limit(2)(part)
        return nn.functional.cross_entropy(model(part["tokens"]), part["labels"], reduction="sum")

    done = vram.micro_batches(batch, step, model=model, reduction="sum")
    assert done.count == 3
    assert_equal_gradients(model, expected)


def test_random_numbers_are_those_that_a_run_of_that_size_would_have_drawn() -> None:
    def run(model: nn.Module, inject: list[int], **options: Any) -> tuple[Any, torch.Tensor, float]:
        torch.manual_seed(5)
        random.seed(5)
        check = limit(4)

        def step(part: Batch) -> torch.Tensor:
            if not inject:
                check(part)
            return loss_of(model, part) * random.random()

        with Injector(inject):
            done = vram.micro_batches(batch, step, model=model, **options)
        return done, torch.rand(1), random.random()

    batch, first = make_batch(8), nn.Sequential(nn.Identity(), Net(), nn.Dropout(0.5))
    second = copy.deepcopy(first)
    done, *drawn = run(first, [])  # 8 fail at once, before anything is drawn
    _, *drawn_after = run(second, [70])  # 8 fail in backward, after dropout has drawn
    assert drawn == drawn_after
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert torch.equal(one.grad, other.grad)
    assert any("in distribution" in note for note in done.notes)


def test_the_size_that_worked_is_where_the_next_batch_starts() -> None:
    model, check = Net(), limit(4)
    seen: list[int] = []

    def step(part: Batch) -> torch.Tensor:
        seen.append(len(part["labels"]))
        check(part)
        return loss_of(model, part)

    vram.micro_batches(make_batch(16), step, model=model, check=False)
    assert seen == [16, 8, 4, 4, 4, 4]
    seen.clear()
    assert vram.micro_batches(make_batch(9), step, model=model, check=False).retries == 0
    assert seen == [4, 4, 1]


def test_it_grows_again_carefully() -> None:
    model = Net()
    largest = 4

    def retries() -> int:
        return vram.micro_batches(
            make_batch(16), lambda part: (limit(largest)(part), loss_of(model, part))[1], model=model, grow_after=2
        ).retries

    assert [retries() for _ in range(9)] == [2, 0, 1, 0, 0, 0, 1, 0, 0]  # 8 tried after 2 batches, then after 4
    largest = 16
    sizes = {vram.micro_batches(make_batch(16), lambda part: loss_of(model, part), model=model, grow_after=2).size}
    for _ in range(20):
        done = vram.micro_batches(make_batch(16), lambda part: loss_of(model, part), model=model, grow_after=2)
        sizes.add(done.size)
    assert sizes == {4, 8, 16}

"""vram.micro_batches in a real training loop on the CPU: same gradients, nothing left over, honest refusals."""

from __future__ import annotations

import collections
import copy
import dataclasses
import gc
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from oom_injection import Injector, relative_difference
from torch import nn

import vram

EQUAL = 1e-6
torch.set_num_threads(1)  # the tensors are small
Batch = dict[str, torch.Tensor]


class Net(nn.Module):
    """Embedding, attention-like mixing within a sample, LayerNorm: a bit of what transformers are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.mix = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        x = x + torch.softmax(x @ x.transpose(1, 2) / 4, dim=-1) @ self.mix(x)
        return self.head(torch.tanh(self.norm(x)).mean(1))  # type: ignore[no-any-return]


def make_batch(samples: int) -> Batch:
    return {"tokens": torch.randint(0, 11, (samples, 6)), "labels": torch.randint(0, 5, (samples,))}


def loss_of(model: nn.Module, batch: Batch) -> torch.Tensor:
    return nn.functional.cross_entropy(model(batch["tokens"]), batch["labels"])


def reference(model: nn.Module, *batches: Batch) -> list[torch.Tensor]:
    """Gradients of the full batches, accumulated, of a model left as it was."""
    kept = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    for batch in batches:
        loss_of(model, batch).backward()  # type: ignore[no-untyped-call]
    found = [p.grad for p in model.parameters()]
    for parameter, grad in zip(model.parameters(), kept, strict=True):
        parameter.grad = grad
    return [grad for grad in found if grad is not None]


def assert_equal_gradients(model: nn.Module, expected: list[torch.Tensor], within: float = EQUAL) -> None:
    """Of the whole gradient relative to its norm; of each parameter's ten times that, for sums that nearly cancel."""
    found = [p.grad for p in model.parameters()]
    for grad, other in zip(found, expected, strict=True):
        assert relative_difference(grad, other) <= 10 * within
    whole = torch.cat([grad.flatten() for grad in found if grad is not None])
    assert relative_difference(whole, torch.cat([grad.flatten() for grad in expected])) <= within


def limit(largest: int) -> Any:
    """A check, to be called with a part, that fails above so many samples."""

    def check(part: Batch) -> None:
        if len(part["labels"]) > largest:
            raise torch.OutOfMemoryError(f"CUDA out of memory. {len(part['labels'])} samples are too many")

    return check


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
            vram.micro_batches(batch, lambda part: loss_of(model, part), model=nn.Sequential(model))
        assert_equal_gradients(model, expected)
        optimizer.step()
        optimizer.zero_grad()
        raised += injector.raised
        outlived += injector.alive()
        del expected, batch, injector
    return raised, outlived, live_tensors() - before


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
    done = vram.micro_batches(batch, step, model=model)
    assert sizes == [3, 3, 3, 1]  # 10 and 5 failed
    assert_equal_gradients(model, expected)
    assert float(done.loss) == pytest.approx(float(loss_of(model, batch)), rel=1e-6)


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

    vram.micro_batches(make_batch(16), step, model=model)
    assert seen == [16, 8, 4, 4, 4, 4]
    seen.clear()
    assert vram.micro_batches(make_batch(9), step, model=model).retries == 0
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


def test_batch_norm_in_training_is_refused_unless_allowed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    batch = torch.randn(8, 3)
    with pytest.raises(vram.VramError, match=r"BatchNorm in training mode \(1;"):
        vram.micro_batches(batch, lambda part: model(part).square().mean(), model=model)
    model.eval()
    assert vram.micro_batches(batch, lambda part: model(part).square().mean(), model=model).notes == ()


def test_allowed_batch_norm_moves_its_statistics_as_one_batch_would() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3))
    norm = model[0]
    batch = torch.ones(8, 3) * torch.tensor([1.0, 2.0, 3.0])

    def step(part: torch.Tensor) -> torch.Tensor:
        loss = model(part).square().mean()
        if len(part) > 2:
            raise torch.OutOfMemoryError("after the statistics have moved")
        return loss  # type: ignore[no-any-return]

    done = vram.micro_batches(batch, step, model=model, allow_batch_norm=True)
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert torch.allclose(norm.running_mean, torch.tensor([0.1, 0.2, 0.3]))  # momentum 0.1, once
    assert (norm.momentum, int(norm.num_batches_tracked or 0), done.count) == (0.1, 1, 4)
    assert any("BatchNorm" in note for note in done.notes)


def test_a_check_finds_losses_that_compare_samples() -> None:
    torch.manual_seed(4)
    model, batch = nn.Linear(4, 4), torch.randn(8, 4)

    def contrastive(part: torch.Tensor) -> torch.Tensor:
        out = model(part)
        return nn.functional.cross_entropy(out @ part.T, torch.arange(len(part)))

    vram.micro_batches(batch, contrastive, model=nn.Sequential(model))
    model.zero_grad()
    with pytest.raises(vram.VramError, match="compares samples"):
        vram.micro_batches(batch, contrastive, model=model, check=True)
    assert model.weight.grad is None

    dropping = nn.Sequential(model, nn.Dropout(0.5))
    vram.micro_batches(batch, lambda part: dropping(part).square().mean(), model=dropping, check=True)
    assert dropping.training
    assert dropping[1].training


@pytest.mark.parametrize("fails", [True, False])
def test_an_optimizers_step_is_never_run_again(fails: bool) -> None:
    model = Net()
    calls = []

    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            super().step(closure)
            if fails:
                raise torch.OutOfMemoryError("CUDA out of memory in the second group")
            return None

    optimizer = Failing(model.parameters(), lr=0.1)

    def step(part: Batch) -> torch.Tensor:
        calls.append(part)
        loss = loss_of(model, part)
        optimizer.step()
        return loss

    expected = torch.OutOfMemoryError if fails else vram.VramError
    with pytest.raises(expected, match="optimizer"):
        vram.micro_batches(make_batch(8), step, model=model)
    assert len(calls) == 1


def test_when_one_sample_is_too_much_the_error_says_what_was_tried() -> None:
    model = Net()
    with pytest.raises(torch.OutOfMemoryError, match=r"of 4: 0 bytes .*of 2: .*of 1: ") as caught:
        vram.micro_batches(make_batch(4), limit(0), model=model)
    assert caught.value.__context__ is None  # nothing of the failed attempts hangs on it


def test_an_optimizer_that_steps_in_backward_is_refused() -> None:
    model = Net()
    model.head.weight.register_post_accumulate_grad_hook(lambda _parameter: None)  # type: ignore[no-untyped-call]
    with pytest.raises(vram.VramError, match="within backward"):
        vram.micro_batches(make_batch(4), lambda part: loss_of(model, part), model=model)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass model="),
        ({"model": nn.Linear(1, 1), "reduction": "max"}, "'mean'"),
        ({"model": nn.Linear(1, 1), "samples": 4}, "given together"),
    ],
)
def test_what_is_missing_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(vram.VramError, match=message):
        vram.micro_batches(make_batch(4), lambda part: part, **options)


def test_a_step_that_calls_backward_itself_is_told() -> None:
    model = Net()
    with pytest.raises(vram.VramError, match="leave backward"):
        vram.micro_batches(make_batch(4), lambda part: loss_of(model, part).backward(), model=model)  # type: ignore[no-untyped-call]


class Pair(NamedTuple):
    left: torch.Tensor
    right: Any


@dataclasses.dataclass(frozen=True)
class Sample:
    image: torch.Tensor
    names: list[str]
    scale: float = 2.0


class Encoding(collections.UserDict[str, Any]):
    """As BatchEncoding: a mapping that has more in it than its items."""

    extra = "kept"


def test_trees_of_every_kind_are_cut_alike() -> None:
    model = nn.Linear(3, 1)
    encoding = Encoding({"mask": torch.arange(5)})
    encoding.extra = "mine"
    batch = {
        "pair": Pair(torch.randn(5, 3), (torch.arange(5), None)),
        "sample": Sample(torch.arange(10).reshape(5, 2), ["a", "b", "c", "d", "e"]),
        "encoding": encoding,
        "list": [torch.arange(5), 7],
        "scalar": torch.tensor(3.0),
    }
    parts: list[Any] = []

    def step(part: Any) -> torch.Tensor:
        if len(part["pair"].left) > 2:
            raise torch.OutOfMemoryError("too many")
        parts.append(part)
        return model(part["pair"].left).mean()  # type: ignore[no-any-return]

    assert vram.micro_batches(batch, step, model=model).size == 2
    assert [part["pair"].right[0].tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert [part["sample"].names for part in parts] == [["a", "b"], ["c", "d"], ["e"]]
    assert [part["sample"].image.tolist() for part in parts][2] == [[8, 9]]
    assert [part["encoding"]["mask"].tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert all(type(part["encoding"]) is Encoding and part["encoding"].extra == "mine" for part in parts)
    assert all(part["list"][1] == 7 and float(part["scalar"]) == 3 and part["sample"].scale == 2 for part in parts)
    assert [part["list"][0].tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert encoding["mask"].tolist() == [0, 1, 2, 3, 4]


def test_a_batch_without_one_size_is_refused_and_can_be_cut_by_hand() -> None:
    model, batch = nn.Linear(3, 1), [torch.randn(4, 3), torch.randn(2, 3)]

    def step(part: list[torch.Tensor]) -> torch.Tensor:
        if len(part) > 1:
            raise torch.OutOfMemoryError("too many")
        return model(part[0]).mean()  # type: ignore[no-any-return]

    with pytest.raises(vram.VramError, match=r"batch\[0\] has 4, batch\[1\] has 2"):
        vram.micro_batches(batch, step, model=model)
    done = vram.micro_batches(batch, step, model=model, samples=2, split=lambda whole, start, stop: whole[start:stop])
    assert done.count == 2

"""What vram.micro_batches refuses, with its messages, and the batches that it can split."""

from __future__ import annotations

import collections
import dataclasses
import gc
import weakref
from typing import Any, NamedTuple

import pytest
import torch
from oom_injection import Injector
from small_training import Batch, Net, limit, loss_of, make_batch
from torch import nn

import vram

pytestmark = pytest.mark.usefixtures("quick_collections")


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

    def run(**options: Any) -> vram.MicroBatches:
        with Injector([1]):
            return vram.micro_batches(batch, contrastive, model=nn.Sequential(model), **options)

    with pytest.raises(vram.VramError, match="compares samples"):
        run()
    assert model.weight.grad is None
    done = run(check=False)
    assert done.count == 2
    assert done.notes == ("not compared with the whole batch (check=False)",)


def test_a_step_function_is_compared_once_and_again_when_tokens_are_shared_out_otherwise() -> None:
    torch.manual_seed(4)
    model, forwards = nn.Linear(4, 3), []

    def step(part: Batch) -> torch.Tensor:
        forwards.append(len(part["y"]))
        limit_to_3(part)
        return nn.functional.cross_entropy(model(part["x"]).flatten(0, 1), part["y"].flatten())

    def limit_to_3(part: Batch) -> None:
        if len(part["y"]) > 3 and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory")

    def run(labels: torch.Tensor) -> list[int]:
        forwards.clear()
        vram.micro_batches({"x": torch.randn(6, 2, 4), "y": labels}, step, model=model)
        return forwards.copy()

    even = torch.randint(0, 3, (6, 2))
    assert run(even) == [6, 3, 1, 2, 3, 3, 6]  # gradients of 3 whole and in two; both parts; the whole, without a graph
    assert [run(even) for _ in range(5)] == [[3, 3, 6], [3, 3], [3, 3, 6], [3, 3], [3, 3]]
    uneven = even.clone()
    uneven[0, 0] = -100
    with pytest.raises(vram.VramError, match="number of tokens"):
        run(uneven)


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
    with pytest.raises(torch.OutOfMemoryError, match=r"micro-batches of 4, 2, 1; the last: 0 bytes ") as caught:
        vram.micro_batches(make_batch(4), limit(0), model=model)
    assert caught.value.__context__ is None  # nothing of the failed attempts hangs on it


def test_an_optimizer_that_steps_in_backward_is_refused() -> None:
    model = Net()
    model.head.weight.register_post_accumulate_grad_hook(lambda _parameter: None)  # type: ignore[no-untyped-call]
    with pytest.raises(vram.VramError, match="within backward"):
        vram.micro_batches(make_batch(4), lambda part: loss_of(model, part), model=model)


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

    assert vram.micro_batches(batch, step, model=model, check=False).size == 2
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

    with pytest.raises(ValueError, match=r"batch\[0\] has 4, batch\[1\] has 2"):
        vram.micro_batches(batch, step, model=model)
    options: dict[str, Any] = {"samples": 2, "split": lambda whole, start, stop: whole[start:stop]}
    with pytest.raises(vram.VramError, match="not even two samples fit"):
        vram.micro_batches(batch, step, model=model, **options)
    done = vram.micro_batches(batch, step, model=model, check=False, **options)
    assert done.count == 2


def test_a_refusal_leaves_earlier_gradients() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model(torch.randn(4, 3)).sum().backward()
    before = [p.grad for p in model.parameters()]
    for options in ({}, {"samples": 4}, {"reduction": "max"}, {"allow_batch_norm": True}):
        with pytest.raises(ValueError, match=r"dimension 0|split and samples|reduction"):
            vram.micro_batches(
                [torch.randn(4, 3), torch.randn(2, 3)], lambda part: model(part[0]).sum(), model=model, **options
            )
    assert all(p.grad is grad for p, grad in zip(model.parameters(), before, strict=True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"reduction": "max"}, "expected reduction to be one of 'mean', 'sum', got 'max'"),
        ({"reduction": "sum", "weight": len}, "weight= is for a mean"),
        ({"samples": 4}, "split and samples are given together"),
        ({"grow_after": 0}, "expected grow_after to be at least 1, got 0"),
    ],
)
def test_options_that_no_batch_could_be_run_with(options: dict[str, Any], said: str) -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(ValueError, match=said):
        vram.micro_batches(torch.randn(4, 3), lambda part: model(part).sum(), model=model, **options)


def test_a_batch_without_samples_is_an_error() -> None:
    model = nn.Linear(3, 1)
    with pytest.raises(ValueError, match="expected samples to be at least 1, got 0"):
        vram.micro_batches(torch.randn(0, 3), lambda part: model(part).sum(), model=model)


def test_an_optimizer_does_not_stand_for_a_model() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match="pass model="):
        vram.micro_batches(torch.randn(4, 3), lambda part: model(part).sum(), optimizer=optimizer)


@pytest.mark.parametrize(("samples", "largest"), [(8, 2), (10, 4), (9, 4)])
def test_allowed_batch_norm_averages_for_ever_and_takes_no_part_of_one_sample(samples: int, largest: int) -> None:
    norm, batch = nn.BatchNorm1d(1, momentum=None), torch.arange(float(samples))[:, None]
    norm.running_mean, norm.num_batches_tracked = torch.tensor([1.0]), torch.tensor(1)
    sizes = []

    def step(part: torch.Tensor) -> torch.Tensor:
        if len(part) > largest:
            raise torch.OutOfMemoryError("CUDA out of memory")
        sizes.append(len(part))
        return norm(part).square().mean()  # type: ignore[no-any-return]

    vram.micro_batches(batch, step, model=norm, allow_batch_norm=True)
    assert min(sizes) > 1
    assert norm.running_mean is not None
    assert float(norm.running_mean) == pytest.approx((1 + float(batch.mean())) / 2)


def test_batch_norm_with_an_odd_number_of_samples_two_at_a_time_is_refused() -> None:
    norm = nn.BatchNorm1d(1)

    def step(part: torch.Tensor) -> torch.Tensor:
        if len(part) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return norm(part).square().mean()  # type: ignore[no-any-return]

    with pytest.raises(vram.VramError, match="a single sample: 5 samples, two at a time"):
        vram.micro_batches(torch.randn(5, 1), step, model=norm, allow_batch_norm=True)


def test_an_output_is_not_held_while_backward_runs() -> None:
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor
        logits: torch.Tensor

    model, logits = nn.Linear(3, 2), []

    def step(part: torch.Tensor) -> Output:
        out = model(part)
        logits.append(weakref.ref(out))
        return Output(out.exp().mean(), out.detach().clone())

    def backward(loss: torch.Tensor) -> None:
        gc.collect()
        alive.append(logits[0]() is not None)
        loss.backward()  # type: ignore[no-untyped-call]

    alive: list[bool] = []
    vram.micro_batches(torch.randn(4, 3), step, model=model, backward=backward)
    assert alive == [False]


def test_a_batch_that_drew_says_so_whatever_drew() -> None:
    model = nn.Linear(3, 2)

    def step(part: torch.Tensor) -> torch.Tensor:
        return (model(part) * torch.rand(len(part), 1).add(0.8).floor()).square().mean()  # type: ignore[no-any-return]

    with Injector([2]):
        done = vram.micro_batches(torch.randn(4, 3), step, model=model)
    assert any("in distribution" in note for note in done.notes)


def test_a_step_sees_the_gradients_of_earlier_batches() -> None:
    model, batch = nn.Linear(3, 2), torch.randn(4, 3)

    def step(part: torch.Tensor) -> torch.Tensor:
        earlier = sum(parameter.grad.sum() for parameter in model.parameters() if parameter.grad is not None)
        return model(part).square().mean() * (1 + earlier)  # type: ignore[no-any-return]

    def twice(run: Any) -> list[torch.Tensor]:
        model.zero_grad()
        run()
        run()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    expected = twice(lambda: step(batch).backward())  # type: ignore[no-untyped-call]
    found = twice(lambda: vram.micro_batches(batch, step, model=model))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def by_hand(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = None


def by_the_model(model: nn.Module) -> None:
    model.zero_grad()


def by_an_optimizer(model: nn.Module) -> None:
    torch.optim.SGD(model.parameters(), lr=0.1).zero_grad(set_to_none=False)


@pytest.mark.parametrize("drop", [by_hand, by_the_model, by_an_optimizer])
def test_a_step_that_drops_earlier_gradients_is_refused_though_its_batch_fits(drop: Any) -> None:
    """They are set aside, and would be added to each later batch for ever."""
    model, batch = nn.Linear(3, 2), torch.randn(4, 3)
    model(batch).square().mean().backward()
    before = [parameter.grad for parameter in model.parameters()]
    values = [grad.clone() for grad in before if grad is not None]

    def step(part: torch.Tensor) -> torch.Tensor:
        drop(model)
        return model(part).square().mean()  # type: ignore[no-any-return]

    with pytest.raises(vram.VramError, match=r"step\(\) .* would be lost"):
        vram.micro_batches(batch, step, model=model)
    for parameter, grad, value in zip(model.parameters(), before, values, strict=True):
        assert parameter.grad is grad
        assert grad is not None
        assert torch.equal(grad, value)


def test_lazy_modules_do_not_begin_within_a_comparison() -> None:
    """Nothing is random there: all their weights would be the same."""
    model = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.LazyLinear(2))

    def step(part: torch.Tensor) -> torch.Tensor:
        if len(part) > 4 and torch.is_grad_enabled():
            raise torch.OutOfMemoryError("CUDA out of memory")
        return model(part).square().mean()  # type: ignore[no-any-return]

    with pytest.raises(vram.VramError, match="lazy module"):
        vram.micro_batches(torch.randn(6, 3), step, model=model)
    model(torch.randn(1, 3))
    assert vram.micro_batches(torch.randn(6, 3), step, model=model).count == 2

"""What programs do around and inside of blocks: with regions, the gradients are equal, or an error says what is wrong."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import gc
import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from checkpointed_programs import (
    MODELS,
    REFUSED,
    REGIONS,
    SINGLE,
    AuxiliaryBlock,
    CountingNorm,
    Model,
    applied,
    assert_same,
    kind,
    outcome,
    plain_step,
    sample,
    work_between,
)
from torch import nn

import vram
from vram.planning._region import CheckpointRegion


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models(make: Callable[[], Model], regions: tuple[CheckpointRegion, ...]) -> None:
    torch.manual_seed(0)
    assert_same(make(), regions, plain_step)


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(make: Callable[[], Model], message: str, regions: tuple[CheckpointRegion, ...]) -> None:
    torch.manual_seed(0)
    model = make()
    handle = applied(model, regions)
    with pytest.raises(RuntimeError, match=message):
        plain_step(model)
    handle.remove()


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("make", SINGLE.values(), ids=SINGLE)
def test_hooks_that_begin_or_end_inside_of_a_region(
    make: Callable[[], Model], regions: tuple[CheckpointRegion, ...]
) -> None:
    torch.manual_seed(0)
    if len(regions) == 4:
        assert_same(make(), regions, plain_step)
        return
    model = make()
    handle = applied(model, regions)
    with pytest.raises(vram.VramError, match="single_blocks=True"):
        plain_step(model)
    handle.remove()
    plain_step(model)  # no hook is left over


def gradient_of_the_sample(model: nn.Module) -> list[Any]:
    x = sample(requires_grad=True)
    model(x).square().sum().backward()
    return [x.grad]


def double_backward(model: nn.Module) -> list[Any]:
    x = sample(requires_grad=True)
    (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    gradient.square().sum().backward()
    return [x.grad]


def partial_gradients(model: Any) -> list[Any]:
    loss = model(sample()).square().sum()
    (one,) = torch.autograd.grad(loss, model.blocks[2].up.weight, retain_graph=True)
    (other,) = torch.autograd.grad(loss, model.blocks[0].up.weight)
    return [one, other]


def retained(model: nn.Module) -> list[Any]:
    loss = model(sample()).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return []


def evaluated_before_backward(model: nn.Module) -> list[Any]:
    loss = model(sample()).square().sum()
    model.eval()
    with torch.no_grad():
        model(sample())
    loss.backward()
    return [torch.tensor(part.training) for part in model.modules()]


def in_evaluation(model: nn.Module) -> list[Any]:
    model.eval()
    return plain_step(model)


def scaled(model: nn.Module) -> list[Any]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(sample()).float().square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return [p.detach() for p in model.parameters()]


def hooked(model: Any) -> list[Any]:
    seen: list[Any] = []
    handles = [
        model.blocks[1].register_forward_hook(lambda _m, _i, result: result * 2),
        model.blocks[2].register_forward_pre_hook(lambda _m, given: (given[0] + 1,)),
        model.blocks[1].up.register_forward_hook(lambda _m, _i, result: result.cos()),
        model.blocks[1].register_full_backward_hook(lambda _m, _i, gradients: seen.append(gradients[0])),
        model.blocks[2].down.register_full_backward_hook(lambda _m, given, _g: (given[0] * 3,)),
        model.blocks[3].down.weight.register_hook(lambda gradient: gradient * 0.5),
    ]
    plain_step(model)
    for handle in handles:
        handle.remove()
    return seen


def after_an_exception(model: Any) -> list[Any]:
    handle = model.blocks[2].up.register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(sample())
    handle.remove()
    torch.manual_seed(9)
    return plain_step(model)


def blocks_without_the_model(model: Any) -> list[Any]:
    """As a program that calls a method of the model, or a part of it; not all blocks of the region."""
    for _ in range(2):
        x = model.first(sample())
        for block in model.blocks[:3]:
            x = torch.tanh(block(x))
        x.square().sum().backward()
    return []


def without_gradients(model: nn.Module) -> list[Any]:
    with torch.no_grad():
        found = [model(sample())]
    with torch.inference_mode():
        found.append(model(sample()).clone())
    plain_step(model)
    return found


def backward_inside_backward(model: nn.Module) -> list[Any]:
    """A hook of the loss that runs another step."""
    x = sample(requires_grad=True)

    def another_step(_gradient: Any) -> None:
        with torch.enable_grad():
            model(sample() * 2).sum().backward()

    x.register_hook(another_step)
    model(x).square().sum().backward()
    return []


def losses_from_inside(model: Any) -> list[Any]:
    """What hooks have seen inside of blocks is a part of the loss."""
    seen: list[Any] = []
    handles = [block.up.register_forward_hook(lambda _m, _i, result: seen.append(result)) for block in model.blocks]
    loss = model(sample()).square().sum()
    (loss + sum(each.cos().sum() for each in tuple(seen))).backward()
    for handle in handles:
        handle.remove()
    return []


def removed_before_backward(model: Any) -> list[Any]:
    loss = model(sample()).square().sum()
    if "_vram_regions" in model.__dict__:
        model._vram_regions.remove()
    loss.backward()
    return []


def after_an_exception_in_backward(model: Any) -> list[Any]:
    loss = model(sample()).square().sum()
    handle = model.blocks[1].up.weight.register_hook(lambda _gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    handle.remove()
    model.zero_grad()
    torch.manual_seed(9)
    return plain_step(model)


def of_one_layer(model: Any) -> list[Any]:
    model.requires_grad_(False)
    model.blocks[1].up.weight.requires_grad_(True)
    return plain_step(model)


STEPS = [
    losses_from_inside,
    removed_before_backward,
    after_an_exception_in_backward,
    of_one_layer,
    gradient_of_the_sample,
    double_backward,
    partial_gradients,
    retained,
    evaluated_before_backward,
    in_evaluation,
    scaled,
    hooked,
    after_an_exception,
    blocks_without_the_model,
    without_gradients,
    backward_inside_backward,
]
# torch's selective checkpointing allows one backward, with its error, and counts what hooks do.
ONE_BACKWARD = {double_backward, partial_gradients, retained}


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("step", STEPS)
def test_steps(step: Callable[[Any], list[Any]], regions: tuple[CheckpointRegion, ...]) -> None:
    torch.manual_seed(0)
    if regions == REGIONS["products"] and step in ONE_BACKWARD:
        with pytest.raises(RuntimeError, match=r"backward|popped|retain_graph"):
            assert_same(Model(), regions, step)
    else:
        assert_same(Model(), regions, step)


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_losses_of_blocks(regions: tuple[CheckpointRegion, ...]) -> None:
    def step(model: Any) -> list[Any]:
        (model(sample()).square().sum() + sum(block.loss for block in model.blocks)).backward()
        return []

    torch.manual_seed(0)
    assert_same(Model(AuxiliaryBlock), regions, step)


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_statistics_count_each_call_once(regions: tuple[CheckpointRegion, ...]) -> None:
    def step(model: Any) -> list[Any]:
        after_an_exception_in_backward(model)
        return [buffer.clone() for buffer in model.buffers()]

    torch.manual_seed(0)
    assert_same(Model(CountingNorm), regions, step)


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_parameters_of_a_functional_call_are_refused(regions: tuple[CheckpointRegion, ...]) -> None:
    """In backward, the model has its own again."""
    model = Model()
    handle = applied(model, regions)
    others = {name: parameter * 2 for name, parameter in model.named_parameters()}
    loss = torch.func.functional_call(model, others, (sample(),)).sum()
    with pytest.raises(vram.VramError, match="functional_call"):
        loss.backward()
    handle.remove()


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_parameters_changed_before_backward_are_refused(regions: tuple[CheckpointRegion, ...]) -> None:
    """As PyTorch does without regions."""
    for wrap in (False, True):
        model = Model()
        if wrap:
            applied(model, regions)
        loss = model(sample()).sum()
        with torch.no_grad():
            for parameter in model.blocks.parameters():
                parameter.mul_(2)
        with pytest.raises(RuntimeError, match=r"inplace operation|changed in place"):
            loss.backward()


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
def test_threads(regions: tuple[CheckpointRegion, ...]) -> None:
    model = Model().eval()
    expected = [torch.autograd.grad(model(sample() * n).square().sum(), model.first.weight)[0] for n in range(4)]
    applied(model, regions)
    found: dict[tuple[int, int], Any] = {}

    def work(number: int) -> None:
        for turn in range(10):
            loss = model(sample() * number).square().sum()
            found[number, turn] = torch.autograd.grad(loss, model.first.weight)[0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert len(found) == 40
    assert all(torch.equal(gradient, expected[number]) for (number, _), gradient in found.items())


def _pickled(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, _pickled])
def test_copies_of_a_model_have_regions_of_their_own(copied: Callable[[Any], Any]) -> None:
    torch.manual_seed(0)
    model = Model()
    applied(model, REGIONS["nested"])
    plain_step(model)
    twin = copied(model)
    assert list(twin.state_dict()) == list(Model().state_dict())
    plain = Model()
    plain.load_state_dict(model.state_dict())
    for each in (model, twin, plain):
        each.zero_grad()
    assert [p.shape for p in twin.parameters()] == [p.shape for p in plain.parameters()]
    got = outcome(twin, plain_step)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(got, outcome(plain, plain_step), strict=True))
    twin._vram_regions.remove()
    assert all("forward" not in part.__dict__ for part in twin.modules())
    assert "forward" in model.__dict__


@pytest.mark.parametrize("make", [kind(between=work_between), MODELS["dataclasses"]], ids=["tensors", "dataclasses"])
def test_a_forward_without_backward_frees_what_it_kept(make: Callable[[], Model]) -> None:
    model: Any = make()
    applied(model, REGIONS["one"])
    ends: list[bool] = []
    end = type("End", (), {"__del__": lambda _self: ends.append(True)})

    def attach(_module: Any, _given: Any, result: Any) -> None:
        getattr(result, "x", result).grad_fn.metadata.update(end=end())

    model.blocks[0].register_forward_hook(attach)
    model(sample())
    gc.collect()
    assert ends == [True]

"""What programs do around and inside of blocks: with regions, the gradients are equal, or an error says what is wrong."""

# mypy: allow-untyped-calls
# size: one case is a few lines, and all run with the same regions

from __future__ import annotations

import copy
import gc
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import vram
from vram.planning import CheckpointPlan
from vram.planning._region import CheckpointRegion

REGIONS = {
    "each": tuple(CheckpointRegion(i, i) for i in range(4)),
    "one": (CheckpointRegion(0, 3),),
    "nested": (
        CheckpointRegion(0, 3, parts=(CheckpointRegion(0, 1, parts=(CheckpointRegion(1, 1),)), CheckpointRegion(3, 3))),
    ),
    "products": tuple(CheckpointRegion(i, i, True) for i in range(4)),
}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(8, 8), nn.Linear(8, 8), nn.Dropout(0.4)

    def forward(self, x: Any, *_more: Any) -> Any:
        result: torch.Tensor = x + self.drop(self.down(torch.tanh(self.up(x))))
        return result


class Model(nn.Module):
    def __init__(self, block: type[nn.Module] = Block) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.blocks = nn.ModuleList(block() for _ in range(4))

    def between(self, x: Any, _number: int) -> Any:
        return x

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        for number, block in enumerate(self.blocks):
            x = self.between(block(x), number)
        return self.last(x)


def sample(*, requires_grad: bool = False) -> torch.Tensor:
    return torch.arange(40, dtype=torch.float32).reshape(5, 8).sin().requires_grad_(requires_grad)


def plain_step(model: nn.Module) -> list[Any]:
    model(sample()).square().sum().backward()
    return []


def applied(model: nn.Module, regions: tuple[CheckpointRegion, ...]) -> vram.Checkpointed:
    return vram.checkpoint(model, plan=CheckpointPlan(1, 1, 1, 1, 1, tuple(f"blocks.{i}" for i in range(4)), regions))


def outcome(model: nn.Module, step: Callable[[Any], list[Any]]) -> list[Any]:
    """What the step returns, the gradients, and the next random number."""
    torch.manual_seed(5)
    found = step(model)
    return [*found, *(p.grad for p in model.parameters()), torch.rand(1)]


def assert_same(model: nn.Module, regions: tuple[CheckpointRegion, ...], step: Callable[[Any], list[Any]]) -> None:
    twin = copy.deepcopy(model)
    handle = applied(twin, regions)
    expected, got = outcome(model, step), outcome(twin, step)
    for one, other in zip(expected, got, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)
    handle.remove()


def kind(**members: Any) -> type[Model]:
    return type("Changed", (Model,), members)


class TupleBlock(Block):
    def forward(self, given: Any) -> Any:
        x, count, rest = given if isinstance(given, tuple) else (given, 0, None)
        return super().forward(x), count + 1, rest


class DictBlock(Block):
    def forward(self, given: Any) -> Any:
        x = given["x"] if isinstance(given, dict) else given
        return {"x": super().forward(x), "other": None, "names": ["a"]}


@dataclass
class State:
    x: torch.Tensor
    calls: int = 0


class StateBlock(Block):
    def forward(self, given: Any) -> Any:
        return State(super().forward(given.x if isinstance(given, State) else given))


class MutatingStateBlock(Block):
    def forward(self, given: Any) -> Any:
        state = given if isinstance(given, State) else State(given)
        state.x = super().forward(state.x)
        return state


class ViewBlock(Block):
    """Returns a view of its result; and changes in place what it has made."""

    def forward(self, x: Any) -> Any:
        result = super().forward(x.transpose(0, 1).transpose(0, 1))
        result.mul_(1.5)
        return result.view(-1).view(5, 8)


class IdentityBlock(Block):
    def forward(self, x: Any) -> Any:
        self.up(x)
        return x


class InPlaceBlock(Block):
    """Changes its input."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.mul_(0.5))


class CountingBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.ones(()))

    def forward(self, x: Any) -> Any:
        self.calls = self.calls + 1  # another tensor
        return super().forward(x) * self.calls


class GeneratorBlock(Block):
    def forward(self, x: Any, generator: torch.Generator) -> Any:
        return super().forward(x) * torch.rand(8, generator=generator)


class Unpacking(Model):
    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = x["x"] if isinstance(x, dict) else x[0] if isinstance(x, tuple) else x.x
        return self.last(x)


class Keywords(Model):
    def forward(self, x: Any) -> Any:
        scale, extra = torch.sigmoid(self.first(x)), {"bias": x.mean(0)}
        x = self.first(x)
        for block in self.blocks:
            x = block(x=x, scale=scale, extra=extra)
        return self.last(x)


class KeywordBlock(Block):
    def forward(self, *, x: Any, scale: Any, extra: Any) -> Any:  # type: ignore[override]
        return super().forward(x) * scale + extra["bias"]


class MaskBlock(Block):
    def forward(self, x: Any, mask: Any) -> Any:
        return super().forward(x) * mask


class Masked(Model):
    """Gives each block another mask, made between blocks, and the last one is changed afterwards."""

    is_changed = False

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        masks = [torch.full((8,), float(number + 1)) for number in range(4)]
        for block, mask in zip(self.blocks, masks, strict=True):
            x = block(x, mask)
        if self.is_changed:
            with torch.no_grad():
                masks[2].zero_()
        return self.last(x)


class Generators(Model):
    def forward(self, x: Any) -> Any:
        generator = torch.Generator().manual_seed(1)
        x = self.first(x)
        for block in self.blocks:
            x = block(x, generator)
        return self.last(x)


def in_place_between(_self: Any, x: Any, number: int) -> Any:
    x += float(number + 1)
    return x


def in_place_on_view_between(_self: Any, x: Any, _number: int) -> Any:
    x[:, :2] *= 0.5
    return x


def detached_between(_self: Any, x: Any, number: int) -> Any:
    return x.detach_() if number == 1 else x


def work_between(self: Any, x: Any, _number: int) -> Any:
    return torch.tanh(x) * torch.rand(8) + self.last(x)


def without_gradients_between(self: Any, x: Any, number: int) -> Any:
    """As an exponential moving average does; and works with the results of the block before."""
    if number == 1:
        with torch.no_grad():
            target = self.blocks[2](x)
        x = torch.tanh(x) * torch.tanh(target) + self.last(x)
    return x


def autocast_part(self: Any, x: Any) -> Any:
    x = self.first(x)
    for number, block in enumerate(self.blocks):
        with torch.autocast("cpu", torch.bfloat16, enabled=number % 2 == 1):
            x = block(x)
    return self.last(x.float())


def twice(self: Any, x: Any) -> Any:
    x = self.first(x)
    for number in (0, 1, 1, 0, 2, 3, 2):
        x = self.blocks[number](x)
    return self.last(x)


def calls_itself(self: Any, x: Any) -> Any:
    x = torch.tanh(self.first(x))
    for number, block in enumerate(self.blocks):
        if number == 2 and not getattr(self, "is_inside", False):
            self.is_inside = True
            x = x + self(sample()).detach() + self(sample())
            self.is_inside = False
        x = block(x)
    return self.last(x)


MODELS: dict[str, Callable[[], Model]] = {
    "plain": Model,
    "tuples": lambda: Unpacking(TupleBlock),
    "dicts": lambda: Unpacking(DictBlock),
    "dataclasses": lambda: Unpacking(StateBlock),
    "views": lambda: Model(ViewBlock),
    "identity": lambda: Model(IdentityBlock),
    "keywords": lambda: Keywords(KeywordBlock),
    "masks": lambda: Masked(MaskBlock),
    "in place between": kind(between=in_place_between),
    "in place on a view between": kind(between=in_place_on_view_between),
    "detached between": kind(between=detached_between),
    "work between": kind(between=work_between),
    "no_grad between": kind(between=without_gradients_between),
    "autocast of some blocks": kind(forward=autocast_part),
    "blocks twice": kind(forward=twice),
    "a model that calls itself": kind(forward=calls_itself),
}


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_models(make: Callable[[], Model], regions: tuple[CheckpointRegion, ...]) -> None:
    torch.manual_seed(0)
    assert_same(make(), regions, plain_step)


# Where the gradients can't be those without regions, or are refused by PyTorch, with the words of the error.
REFUSED: dict[str, tuple[Callable[[], Model], str]] = {
    "a state that blocks change": (lambda: Unpacking(MutatingStateBlock), "changes .*State"),
    "an input changed in place": (lambda: Model(InPlaceBlock), "inplace operation|changed in place|in-place"),
    "a mask changed before backward": (
        lambda: type("M", (Masked,), {"is_changed": True})(MaskBlock),
        "inplace operation|changed in place",
    ),
    "a buffer that is replaced": (
        lambda: Model(CountingBlock),
        "buffer 'calls' of a CountingBlock is changed in place in forward",
    ),
    "a generator": (lambda: Generators(GeneratorBlock), "torch.Generator"),
}


@pytest.mark.parametrize("regions", REGIONS.values(), ids=REGIONS)
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(make: Callable[[], Model], message: str, regions: tuple[CheckpointRegion, ...]) -> None:
    torch.manual_seed(0)
    model = make()
    handle = applied(model, regions)
    with pytest.raises(RuntimeError, match=message):
        plain_step(model)
    handle.remove()


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


STEPS = [
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


def test_a_model_is_wrapped_once() -> None:
    model = Model()
    handle = applied(model, REGIONS["one"])
    for again in (model, nn.Sequential(model), model.blocks):
        with pytest.raises(vram.VramError, match="checkpointed already"):
            vram.plan_checkpoints(again, sample(), "1GiB")
    handle.remove()
    applied(model, REGIONS["one"])


def test_blocks_inside_of_blocks_are_refused() -> None:
    model = Model()
    with pytest.raises(ValueError, match=r"blocks\.0\.up is inside of blocks.0"):
        vram.plan_checkpoints(model, sample(), "1GiB", blocks=list(model.blocks[0].modules())[:2])


def test_a_forward_without_backward_frees_what_it_kept() -> None:
    model: Any = kind(between=work_between)()
    applied(model, REGIONS["one"])
    ends: list[bool] = []
    end = type("End", (), {"__del__": lambda _self: ends.append(True)})
    model.blocks[0].register_forward_hook(lambda _m, _i, result: result.grad_fn.metadata.update(end=end()))
    model(sample())
    gc.collect()
    assert ends == [True]

"""Models of blocks with what programs do in and between them, regions, and the comparison of a step with and without these."""

# mypy: allow-untyped-calls
# size: each program is a few lines

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

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


@dataclass
class SlottedState:
    __slots__ = ("seen", "x")
    x: torch.Tensor
    seen: list[torch.Tensor]


class SlottedStateBlock(Block):
    def forward(self, given: Any) -> Any:
        state = given if isinstance(given, SlottedState) else SlottedState(given, [])
        state.seen.append(state.x)
        state.x = super().forward(state.x) + sum(state.seen)
        return state


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


class CounterBlock(Block):
    """Counts its calls, keeps what it has computed once, and draws numbers from generators of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.table: Any = None
        self.torch_numbers, self.python_numbers = torch.Generator().manual_seed(1), random.Random(1)
        self.numpy_numbers = numpy.random.default_rng(1)

    def forward(self, x: Any) -> Any:
        self.calls += 1
        if self.table is None:
            self.table = torch.exp(self.up.weight[0])
        drawn = torch.rand(8, generator=self.torch_numbers) + self.python_numbers.random() + self.numpy_numbers.random()
        table, self.table = self.table, None
        return super().forward(x) * self.calls * drawn * table


class DrawingBlock(Block):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * random.random() * float(numpy.random.rand())


def seeded(self: Any, x: Any) -> Any:
    random.seed(1)
    numpy.random.seed(1)
    return Model.forward(self, x) * random.random()


class ScaleBlock(Block):
    """Halves a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.ones(8)

    def forward(self, x: Any) -> Any:
        self.scale *= 0.5
        return super().forward(x) * self.scale


class UsingBlock(Block):
    """Uses what it gets, in a way of the argument's type."""

    def forward(self, x: Any, given: Any) -> Any:
        if isinstance(given, set):
            given.add(len(given))
            factor = len(given)
        elif isinstance(given, numpy.ndarray):
            given += 1
            factor = given[0]
        else:
            factor = given() if callable(given) else next(given) if hasattr(given, "__next__") else given.random()
        return super().forward(x) * float(factor)


def given_to_all(make: Callable[[], Any]) -> Callable[[], Model]:
    """Returns a model that gives all blocks the same object."""

    def forward(self: Any, x: Any) -> Any:
        given = make()
        for block in self.blocks:
            x = block(x, given)
        return self.last(x)

    return lambda: type("Giving", (Model,), {"forward": forward})(UsingBlock)


def a_function_whose_variables_change() -> Callable[[], int]:
    calls = 0

    def count() -> int:
        nonlocal calls
        calls += 1
        return calls

    return count


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


class AuxiliaryBlock(Block):
    """As experts that balance their load: a loss from inside the block, as an attribute."""

    def forward(self, x: Any) -> Any:
        result = super().forward(x)
        self.loss = result.square().mean()
        return result


class CheckpointedInside(Block):
    def forward(self, x: Any) -> Any:
        return x + checkpoint(lambda x: self.drop(self.down(torch.tanh(self.up(x)))), x, use_reentrant=False)


class ListBlock(Block):
    """Gets a list that it lengthens, and returns one with other things."""

    def forward(self, x: Any, found: Any) -> Any:
        result = super().forward(x)
        found.append(result.mean())
        return [result, result, "name", 3.5, None]


class Lists(Model):
    def forward(self, x: Any) -> Any:
        x, found = self.first(x), list[Any]()
        for block in self.blocks:
            one, other, *_ = block(x, found)
            x = one + other
        return self.last(x) * sum(found)


class CountingNorm(Block):
    """Its average is over all calls, so that one too many shows."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8, momentum=None)

    def forward(self, x: Any) -> Any:
        return super().forward(self.norm(x))


class GradientInside(Block):
    """As models of forces do."""

    def forward(self, x: Any) -> Any:
        with torch.enable_grad():
            y = super().forward(x)
            (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        return y + gradient


def checkpointed_by_itself(*, use_reentrant: bool) -> Callable[..., Any]:
    def forward(self: Any, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=use_reentrant)
        return self.last(x)

    return forward


def checkpoint_between(self: Any, x: Any, _number: int) -> Any:
    return checkpoint(lambda x: torch.tanh(self.last(x)), x, use_reentrant=False)


def hooks_around(first: int, last: int) -> Callable[..., Any]:
    """Saves what these blocks and what is between them keep on the host."""

    def forward(self: Any, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        with contextlib.ExitStack() as hooks:
            for number, block in enumerate(self.blocks):
                if number == first:
                    hooks.enter_context(torch.autograd.graph.save_on_cpu())
                x = block(x)
                if number == last:
                    hooks.close()
        return self.last(x)

    return forward


def shared_layers() -> Model:
    model = Model()
    for block in model.blocks:
        block.up = model.blocks[0].up
    return model


MODELS: dict[str, Callable[[], Model]] = {
    "plain": Model,
    "tuples": lambda: Unpacking(TupleBlock),
    "dicts": lambda: Unpacking(DictBlock),
    "dataclasses": lambda: Unpacking(StateBlock),
    "a state that blocks change": lambda: Unpacking(MutatingStateBlock),
    "a state with slots that blocks change": lambda: Unpacking(SlottedStateBlock),
    "counters, caches and generators": lambda: Model(CounterBlock),
    "random numbers of Python and NumPy": lambda: type("Seeded", (Model,), {"forward": seeded})(DrawingBlock),
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
    "checkpoints inside": lambda: Model(CheckpointedInside),
    "lists": lambda: Lists(ListBlock),
    "shared layers": shared_layers,
    "reentrant checkpoints around blocks": kind(forward=checkpointed_by_itself(use_reentrant=True)),
    "checkpoints between": kind(between=checkpoint_between),
    "hooks of saved tensors around all": kind(forward=hooks_around(0, 3)),
}

# Where the gradients can't be those without regions, or are refused by PyTorch, with the words of the error.
REFUSED: dict[str, tuple[Callable[[], Model], str]] = {
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
    "Python's random numbers": (given_to_all(lambda: random.Random(1)), "takes a Random"),
    "NumPy's random numbers": (given_to_all(lambda: numpy.random.default_rng(1)), "takes a Generator"),
    "an iterator": (given_to_all(lambda: iter(range(1, 9))), "takes an iterator"),
    "a set that grows": (given_to_all(set), "changes the set"),
    "an array that changes": (given_to_all(lambda: numpy.ones(3)), "changes the ndarray"),
    "a function whose variables change": (given_to_all(a_function_whose_variables_change), "changes the function"),
    "a tensor that is an attribute": (
        lambda: Model(ScaleBlock),
        "the tensor 'scale' of a ScaleBlock is changed in place",
    ),
    "gradients inside": (lambda: Model(GradientInside), "still in their forward pass"),
}

# What regions of single blocks allow, and larger ones refuse: what begins inside a region must end there.
SINGLE: dict[str, Callable[[], Model]] = {
    "checkpoints around blocks": kind(forward=checkpointed_by_itself(use_reentrant=False)),
    "hooks around one block": kind(forward=hooks_around(1, 1)),
    "hooks around two blocks": kind(forward=hooks_around(1, 2)),
    "hooks that end before": kind(forward=hooks_around(0, 1)),
    "hooks that end later": kind(forward=hooks_around(2, 3)),
}

"""What cannot have regions, or not these: refused with an error that says what to do, and removed without a trace."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from checkpointed_programs import REGIONS, Block, Model, applied, sample
from torch import nn

import vram
from vram.planning import CheckpointPlan
from vram.planning._region import CheckpointRegion


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


def test_what_has_replaced_a_forward_since_stays() -> None:
    """As accelerate does, which casts in a forward of its own."""
    model: Any = Model().eval()
    expected = model(sample())
    handle = applied(model, REGIONS["one"])
    forward, block_forward = model.forward, model.blocks[0].forward
    model.forward, model.blocks[0].forward = (lambda x: forward(x) * 2), (lambda x: block_forward(x) + 0)
    handle.remove()
    assert torch.equal(model(sample()), expected * 2)
    assert "forward" in model.blocks[0].__dict__
    assert "forward" not in model.blocks[1].__dict__


REGION = CheckpointRegion
IMPOSSIBLE = {
    "backwards": (REGION(2, 1),),
    "too far": (REGION(2, 4),),
    "negative": (REGION(-1, 1),),
    "overlapping": (REGION(0, 2), REGION(2, 3)),
    "in another order": (REGION(2, 3), REGION(0, 1)),
    "a part outside": (REGION(0, 1, parts=(REGION(1, 2),)),),
    "products of two blocks": (REGION(0, 1, True),),
    "products inside": (REGION(0, 1, parts=(REGION(1, 1, True),)),),
}


@pytest.mark.parametrize("regions", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_regions_are_refused(regions: tuple[CheckpointRegion, ...]) -> None:
    model = Model()
    with pytest.raises(ValueError, match="expected regions in their order"):
        applied(model, regions)
    assert "forward" not in model.blocks[0].__dict__


def test_blocks_of_a_plan_are_different_modules() -> None:
    model = Model()
    model.blocks[2] = model.blocks[0]
    with pytest.raises(ValueError, match="different modules"):
        applied(model, REGIONS["each"])
    with pytest.raises(ValueError, match="different modules"):
        vram.checkpoint(Model(), plan=CheckpointPlan(1, 1, 1, 1, 1, ("blocks", "blocks.1"), (REGION(0, 0),)))


class LazyBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.LazyLinear(8)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: nn.DataParallel(Model()), vram.VramError, "DistributedDataParallel"),
        (lambda: nn.Sequential(torch.jit.trace(nn.Linear(8, 8), sample())), vram.VramError, "TorchScript"),
        (lambda: Model(LazyBlock), vram.VramError, "call it once"),
        (lambda: 5, TypeError, "torch.nn.Module, got int"),
    ],
    ids=["DataParallel", "TorchScript", "lazy", "no module"],
)
def test_models_that_are_refused(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        applied(make(), REGIONS["one"])
    with pytest.raises(kind, match=message):
        vram.plan_checkpoints(make(), sample(), "1GiB")


def test_arguments_that_a_plan_replaces_are_refused() -> None:
    plan: Any = CheckpointPlan(1, 1, 1, 1, 1, (), ())
    for given in ({"sample": sample()}, {"optimizer": 5}, {"sample": sample(), "budget": "1GiB"}):
        with pytest.raises(ValueError, match="plan alone"):
            vram.checkpoint(Model(), plan=plan, **given)
    with pytest.raises(TypeError, match=r"CheckpointPlan .* got str"):
        vram.checkpoint(Model(), plan="plan")  # type: ignore[arg-type]


class Careful(Model):
    """Continues without a block that raises."""

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            try:
                x = block(x)
            except RuntimeError:
                continue
        return x


class RaisingBlock(Block):
    raises = False

    def forward(self, x: Any) -> Any:
        x = super().forward(x)
        if self.raises:
            raise RuntimeError("this block fails")
        return x


def test_a_block_that_raises_while_the_model_continues_is_named_as_the_reason() -> None:
    model: Any = Careful(RaisingBlock)
    applied(model, (REGION(0, 3),))
    model.blocks[2].raises = True
    with pytest.raises(vram.VramError, match=r"ended by an exception \(RuntimeError\), and the model continued"):
        model(sample()).sum().backward()


def test_a_block_alone_may_raise_while_the_model_continues() -> None:
    model: Any = Careful(RaisingBlock)
    model.blocks[2].raises = True
    torch.manual_seed(0)  # of dropout
    model(sample()).sum().backward()
    expected = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    applied(model, tuple(REGION(i, i) for i in range(4)))
    torch.manual_seed(0)
    model(sample()).sum().backward()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)

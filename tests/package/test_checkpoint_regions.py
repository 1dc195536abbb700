"""Regions that run again in backward: the gradients, statistics and random numbers are those of the model without them."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed.fsdp
from checkpointed_models import Net
from torch import nn

import vram
from vram import VramError
from vram.planning._region import CheckpointRegion
from vram.planning._regions import Regions

REGIONS = {
    "one block": (CheckpointRegion(0, 0),),
    "each block": tuple(CheckpointRegion(i, i) for i in range(6)),
    "segments": (CheckpointRegion(0, 2), CheckpointRegion(3, 5)),
    "nested": (CheckpointRegion(0, 5, parts=(CheckpointRegion(0, 2, parts=(CheckpointRegion(0, 0),)), CheckpointRegion(3, 3))), ),
    "products": (CheckpointRegion(1, 1, True), CheckpointRegion(2, 2, True), CheckpointRegion(4, 5)),
}  # fmt: skip


@pytest.fixture(params=REGIONS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Net, Net]]:
    """A model, and its copy with regions."""
    torch.manual_seed(0)
    plain = Net()
    copied = copy.deepcopy(plain)
    regions = Regions(copied, list(copied.blocks), REGIONS[request.param])
    yield plain, copied
    regions.remove()
    assert all("forward" not in module.__dict__ for module in copied.modules())


def assert_same(pair: tuple[Net, Net], step: Callable[[Any], Any]) -> None:
    """The same result, gradients, buffers and next random number."""
    found = []
    for model in pair:
        torch.manual_seed(3)
        found.append((step(model), torch.rand(1)))
    (one, after_one), (other, after_other) = found
    assert torch.equal(one, other)
    assert torch.equal(after_one, after_other)
    for (name, parameter), twin in zip(pair[0].named_parameters(), pair[1].parameters(), strict=True):
        assert parameter.grad is not None, name
        assert twin.grad is not None, name
        assert torch.equal(parameter.grad, twin.grad), name
    for (name, buffer), same in zip(pair[0].named_buffers(), pair[1].buffers(), strict=True):
        assert torch.equal(buffer, same), name


def batch() -> torch.Tensor:
    return torch.arange(64, dtype=torch.float32).reshape(4, 16).sin()


def test_one_step(pair: tuple[Net, Net]) -> None:
    def step(model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = model(batch()).square().sum()
        loss.backward()
        return loss

    assert_same(pair, step)


def test_called_twice_before_backward(pair: tuple[Net, Net]) -> None:
    def step(model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = (model(batch()) * model(2 * batch())).sum()
        loss.backward()
        return loss

    assert_same(pair, step)


def test_accumulated_gradients_and_evaluation_between(pair: tuple[Net, Net]) -> None:
    def step(model: nn.Module) -> torch.Tensor:
        losses = []
        for number in range(3):
            losses.append(model(batch() + number).square().mean())
            losses[-1].backward()
            model.eval()
            with torch.no_grad():
                losses.append(model(batch()).sum())
            model.train()
        return torch.stack(losses)

    assert_same(pair, step)


def test_autocast_is_restored(pair: tuple[Net, Net]) -> None:
    def step(model: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            result = model(batch())
        loss: torch.Tensor = result.float().square().sum()
        loss.backward()  # outside of autocast
        return loss

    assert_same(pair, step)


@pytest.mark.parametrize("pair", [name for name in REGIONS if name != "products"], indirect=True)
def test_the_graph_can_be_kept(pair: tuple[Net, Net]) -> None:
    """torch's selective checkpointing allows one backward."""

    def step(model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = model(batch()).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        return loss

    assert_same(pair, step)


def test_an_exception_leaves_no_region_open() -> None:
    model = Net()
    regions = Regions(model, list(model.blocks), (CheckpointRegion(0, 5, parts=(CheckpointRegion(0, 3),)),))
    fails = model.blocks[2].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(batch())
    fails.remove()
    packed = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        nn.functional.linear(batch(), torch.ones(2, 16, requires_grad=True))
    assert packed, "no hook of a region is in front"
    model(batch()).sum().backward()
    regions.remove()


def test_a_model_that_leaves_out_blocks() -> None:
    """As with stochastic depth: what did not run does not run again."""

    class Skipping(Net):
        skipped: tuple[int, ...] = ()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for number, block in enumerate(self.blocks):
                if number not in self.skipped:
                    x = block(x, torch.ones(()))
            result: torch.Tensor = self.last(x)
            return result

    def step(model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = model(batch()).square().sum()
        loss.backward()
        return loss

    for skipped in [(0,), (2, 3), (5,), (3, 4, 5)]:
        plain = Skipping()
        plain.skipped = skipped
        copied = copy.deepcopy(plain)
        Regions(
            copied,
            list(copied.blocks),
            (CheckpointRegion(0, 5, parts=(CheckpointRegion(0, 2), CheckpointRegion(3, 4))),),
        )
        for model in (plain, copied):
            torch.manual_seed(1)
            step(model)
        for parameter, twin in zip(plain.parameters(), copied.parameters(), strict=True):
            assert (parameter.grad is None) == (twin.grad is None)
            assert parameter.grad is None or torch.equal(parameter.grad, twin.grad)  # type: ignore[arg-type]


def test_what_the_model_does_between_blocks() -> None:
    """It is not repeated, and its gradients are right."""

    class Scaling(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            for block in self.blocks:
                x = block(x, torch.ones(())) * torch.sigmoid(x)
            result: torch.Tensor = self.last(x)
            return result

    plain = Scaling()
    copied = copy.deepcopy(plain)
    Regions(copied, list(copied.blocks), REGIONS["nested"])

    def step(model: nn.Module) -> torch.Tensor:
        loss: torch.Tensor = model(batch()).square().sum()
        loss.backward()
        return loss

    assert_same((plain, copied), step)


def test_a_block_that_changes_a_buffer_is_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.calls: torch.Tensor
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            result: torch.Tensor = self.linear(x) * self.calls
            return result

    model = nn.Sequential(Counting(), Counting())
    Regions(model, list(model), (CheckpointRegion(0, 0),))
    with pytest.raises(VramError, match="buffer 'calls' of a Counting is changed in place in forward"):
        model(batch())


def test_the_first_run_keeps_nothing_but_the_input() -> None:
    model = Net().eval()
    Regions(model, list(model.blocks), (CheckpointRegion(0, 5),))
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        model(batch())
    # First and last layer: input and weight; sigmoid of the scale; the region: its two inputs.
    assert len(kept) <= 8


def _rank(rank: int, port: int, is_sharded: bool, queue: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    plain = Net()
    copied = copy.deepcopy(plain)
    if not is_sharded:
        Regions(copied, list(copied.blocks), REGIONS["nested"])
    found = []
    for model in (plain, copied):
        wrapped: nn.Module = model
        if is_sharded:
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
            for part in (*model.blocks, model):
                torch.distributed.fsdp.fully_shard(part, mesh=mesh)
        else:
            wrapped = nn.parallel.DistributedDataParallel(model)
        if is_sharded and model is copied:
            names = tuple(f"blocks.{i}" for i in range(6))
            plan = vram.CheckpointPlan(1, 1, 1, 1, 1, names, REGIONS["each block"])
            vram.checkpoint(model, plan=plan)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(2):
            torch.manual_seed(rank)
            optimizer.zero_grad()
            wrapped(batch() + rank).square().sum().backward()
            gradients = [p.grad for p in model.parameters()]
            optimizer.step()
        found.append([g.to_local() if is_sharded else g for g in gradients])  # type: ignore[union-attr]
    queue.put(all(torch.equal(a, b) for a, b in zip(*found, strict=True)))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("is_sharded", [False, True], ids=["DistributedDataParallel", "fully_shard"])
def test_two_ranks(is_sharded: bool) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")  # a child of a fork has none of autograd's threads
    queue = context.SimpleQueue()
    ranks = [context.Process(target=_rank, args=(rank, port, is_sharded, queue)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(120)
        assert process.exitcode == 0
    assert [queue.get() for _ in ranks] == [True, True]

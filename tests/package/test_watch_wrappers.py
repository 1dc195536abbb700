"""PyTorch's own wrappers of a model add nothing to its names: one process, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

import marks
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer

import vram
from vram import _marks

FORWARD = ["forward", "forward/Sequential", *(f"forward/Sequential/{i}" for i in range(3)), "forward", "forward/loss"]
STEP = [*FORWARD, "backward", "backward/loss", "backward/2", "backward/1", "backward/0", "optimizer"]
PARAMETERS = ["0.weight", "0.bias", "2.weight", "2.bias"]
STATES = sorted(f"{name}.{state}" for name in PARAMETERS for state in ("step", "exp_avg", "exp_avg_sq"))


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    recorder = marks.put_in_place(monkeypatch, request.param)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    yield recorder
    dist.destroy_process_group()
    _marks.end_trail()
    assert not any(recorder.open.values())


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def names(recorder: marks.Recorder, category: str) -> list[str]:
    return [name for said, name in recorder.named if said == category]


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()


def test_data_parallel(recorder: marks.Recorder) -> None:
    model = nn.DataParallel(net())
    optimizer = torch.optim.Adam(model.parameters())
    with vram.watch(model, optimizer):
        step(model, optimizer)
    assert (recorder.take(), names(recorder, "parameter")) == (STEP, PARAMETERS)


@pytest.mark.parametrize("is_sharded", [False, True])
def test_distributed_data_parallel(recorder: marks.Recorder, is_sharded: bool) -> None:
    model = nn.parallel.DistributedDataParallel(net(), gradient_as_bucket_view=True)
    inner = torch.optim.Adam
    optimizer = ZeroRedundancyOptimizer(model.parameters(), inner) if is_sharded else inner(model.parameters())
    with vram.watch(model, optimizer):
        step(model, optimizer)
    assert (recorder.take(), names(recorder, "parameter")) == (STEP, PARAMETERS)
    assert len(names(recorder, "gradient")) == 1  # the bucket
    assert names(recorder, "gradient")[0].endswith(" and 3 more")
    assert sorted(names(recorder, "optimizer state")) == STATES


def test_fully_sharded(recorder: marks.Recorder) -> None:
    model = net()
    mesh = init_device_mesh("cpu", (1,))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters())
    with vram.watch(model, optimizer):
        step(model, optimizer)
    assert (recorder.take(), names(recorder, "parameter")) == (STEP, PARAMETERS)
    assert names(recorder, "gradient") == ["0.*", "2.*"]  # as they were reduced
    assert sorted(names(recorder, "optimizer state")) == STATES

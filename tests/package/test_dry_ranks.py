"""Dry runs of programs that a launcher starts, or that start their ranks themselves."""

# mypy: allow-untyped-calls

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vram.dry import dry_run
from vram.dry.__main__ import main
from vram.dry._values import DryRunError

VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# As torchrun starts it.
LAUNCHED = """
import os, sys, torch
from torch import nn
torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
print("ranks", torch.distributed.get_world_size(), os.environ["WORLD_SIZE"])
model = nn.parallel.DistributedDataParallel(nn.Linear(256, 256).to(rank), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(9):
    loss = model(torch.ones(8, 256, device=rank)).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "argv", ["vram.dry"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    assert not [name for name in VARIABLES if name in os.environ], "what a dry run sets is as before"


@pytest.mark.parametrize("ranks", [1, 4])
def test_a_script_for_torchrun_finds_its_variables(
    ranks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(LAUNCHED)
    assert main(["--gpu", "24GiB", "--world-size", str(ranks), str(path)]) == 0
    assert f"ranks {ranks} {ranks}" in capsys.readouterr().out


def test_a_script_for_torchrun_without_a_number_of_ranks_says_what_to_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(LAUNCHED)
    assert main(["--gpu", "24GiB", str(path)]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "sets LOCAL_RANK: run the script with python -m vram.dry --world-size 1" in last
    path.write_text("{}['accuracy']")
    assert main(["--gpu", "24GiB", str(path)]) == 1
    assert "--world-size" not in capsys.readouterr().err


def test_a_run_of_one_rank_sets_no_variables(tmp_path: Path) -> None:
    """Programs take them for a launcher's."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        assert "LOCAL_RANK" not in os.environ


def test_the_variables_of_the_user_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("MASTER_PORT", "1234")
        with dry_run(path=tmp_path / "dry.vtrace", world_size=2):
            assert (os.environ["MASTER_PORT"], os.environ["WORLD_SIZE"]) == ("1234", "2")


def worker(rank: int, ranks: int, found: list[Any]) -> None:
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(nn.Linear(256, 256).to(rank), device_ids=[rank])
    model(torch.ones(8, 256, device=rank)).sum().backward()
    found.append((rank, torch.distributed.get_world_size()))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("join", [True, False])
def test_the_first_of_the_processes_that_are_spawned_runs(join: bool, tmp_path: Path) -> None:
    found: list[Any] = []
    expected = pytest.warns(UserWarning, match=r"one of the 2 processes of torch.multiprocessing.spawn")
    with expected, dry_run(path=tmp_path / "dry.vtrace") as run:
        multiprocessing: Any = torch.multiprocessing
        context = multiprocessing.spawn(worker, args=(2, found), nprocs=2, join=join)
        assert join or context.join(60)
    assert found == [(0, 2)]
    assert run.peak.requested_bytes > 2 * 256 * 256 * 4


def test_weights_of_sharded_models_are_drawn(tmp_path: Path) -> None:
    """As programs do that make their model on the meta device. Nothing is allocated for it."""
    from torch.distributed.fsdp import fully_shard

    with dry_run(path=tmp_path / "dry.vtrace", world_size=4):
        with torch.device("meta"):
            model: Any = nn.Sequential(nn.Linear(512, 512), nn.Dropout(0.1), nn.LayerNorm(512))
        fully_shard(model)
        model.to_empty(device="cuda")
        for layer in model:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
        nn.init.trunc_normal_(model[0].weight)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        nn.init.normal_(model[0].weight)
        assert torch.cuda.max_memory_allocated() == before
        dropped: Any = nn.functional.dropout(torch.empty_like(model[0].weight))
        assert dropped.to_local().shape == (128, 512)
        model(torch.ones(8, 512, device="cuda")).sum().backward()


def test_gradients_of_parts_are_added_up(tmp_path: Path) -> None:
    """Autograd's engine looks for a stream of the GPU, because DTensors say themselves that they are there."""
    from torch.distributed.tensor import parallel

    with dry_run(path=tmp_path / "dry.vtrace", world_size=2):
        mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (2,))
        model: Any = nn.Linear(512, 1024).cuda()
        parallel.parallelize_module(model, mesh, parallel.ColwiseParallel(use_local_output=False))
        with parallel.loss_parallel():
            scores = model(torch.ones(8, 512, device="cuda"))
            loss = nn.functional.cross_entropy(scores, torch.zeros(8, dtype=torch.int64, device="cuda"))
            (loss + scores.float().mean()).backward()
        assert model.weight.grad.to_local().shape == (512, 512)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_batches_are_normalized_over_all_ranks(dtype: torch.dtype, tmp_path: Path) -> None:
    """Besides the parameters, a layer keeps what it normalizes, its result, and statistics."""
    with dry_run(path=tmp_path / "dry.vtrace", world_size=4) as run:
        torch.distributed.init_process_group("nccl")
        layers: Any = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm2d(16))).cuda()
        images = torch.randn(8, 16, 32, 32, device="cuda", dtype=dtype, requires_grad=True)
        before = torch.cuda.memory_allocated()
        result = layers(images)
        assert images.nbytes <= torch.cuda.memory_allocated() - before < images.nbytes + 4096
        result.sum().backward()
        assert images.grad is not None
        assert (images.grad.shape, images.grad.dtype) == (images.shape, dtype)
        assert layers[0].weight.grad.shape == (16,)
    assert not run.unknown_operators
    assert not run.largest_sizes, "each rank has samples"


def test_what_the_first_rank_sends_is_known(tmp_path: Path) -> None:
    """As programs end the training of all ranks."""
    with dry_run(path=tmp_path / "dry.vtrace", world_size=4):
        torch.distributed.init_process_group("nccl")
        ends = torch.zeros(1, device="cuda")
        torch.distributed.broadcast(ends, 0)
        assert ends != 1
        torch.distributed.broadcast(ends, 1)
        with pytest.raises(DryRunError, match="item"):
            bool(ends == 1)


def test_lists_of_the_results_of_all_ranks_are_one_piece_first(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace", world_size=4) as run:
        torch.distributed.init_process_group("nccl")
        part = torch.ones(1 << 20, device="cuda")
        found = [torch.empty_like(part) for _ in range(4)]
        before = torch.cuda.memory_allocated()
        torch.distributed.all_gather(found, part)
        assert torch.cuda.max_memory_allocated() - before == 4 * part.nbytes
        torch.cuda.reset_peak_memory_stats()
        torch.distributed.reduce_scatter(part, found)
        assert torch.cuda.max_memory_allocated() - before == 4 * part.nbytes
    assert not run.unknown_operators

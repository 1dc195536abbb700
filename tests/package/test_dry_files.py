"""Dry runs of programs that read files: torch.load, and what libraries do with the addresses of tensors."""

# mypy: allow-untyped-calls

from __future__ import annotations

import argparse
import copy
import importlib
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry import DryRun, dry_run
from vram.dry._values import DryRunError

pytestmark = pytest.mark.filterwarnings("ignore:the program reads a value", "ignore:.*TypedStorage")
BIG = 1 << 20  # elements: more than what is pretended on the CPU


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 8))


@pytest.fixture(scope="module", name="checkpoint")
def _checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file as programs write it after an epoch."""
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(2, 512)).sum().backward()
    optimizer.step()
    path = tmp_path_factory.mktemp("checkpoint") / "epoch3.pt"
    saved = {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "best": torch.tensor(0.25),
        "random": torch.get_rng_state(),
        "images": torch.arange(BIG),
    }
    torch.save(saved, path)
    return path


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Iterator[DryRun]:
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace") as run:
        yield run


def on_gpu(tensor: Any) -> bool:
    return isinstance(tensor, FakeTensor) and tensor.device == torch.device("cuda", 0)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("make", [lambda: model().cuda(), lambda: torch.rand(BIG)], ids=["of the GPU", "of the CPU"])
def test_pickle_is_told_that_there_are_no_values(make: Any, tmp_path: Path) -> None:
    made = make()
    line = sys._getframe().f_lineno + 2
    with open(tmp_path / "model.pkl", "wb") as file, pytest.raises(DryRunError) as error:
        pickle.dump(made, file)
    assert f"{Path(__file__).name}:{line}: pickle reads the values" in str(error.value)
    assert copy.copy(made) is not made


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("map_location", [None, "cpu", torch.device("cpu"), lambda storage, _location: storage])
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_loaded_to_the_cpu_has_its_values(checkpoint: Path, map_location: Any, weights_only: bool) -> None:
    read = torch.load(checkpoint, map_location=map_location, weights_only=weights_only)
    assert (read["epoch"], read["best"].item()) == (3, 0.25)
    assert read["images"][-1] == BIG - 1
    torch.set_rng_state(read["random"])
    steps = [state["step"] for state in read["optimizer"]["state"].values()]
    assert all(step.item() == 1 for step in steps)
    assert read["images"].cuda().device == torch.device("cuda", 0)


@pytest.fixture(scope="module", name="parts")
def _parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with tensors that share a storage."""
    path = tmp_path_factory.mktemp("parts") / "parts.pt"
    whole = torch.arange(float(BIG))
    torch.save({"whole": whole, "view": whole.view(-1, 2)[:, 1], "weight": nn.Parameter(torch.ones(300, 300))}, path)
    torch.save(torch.load(path), path.with_name("old.pt"), _use_new_zipfile_serialization=False)
    return path


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("name", ["parts.pt", "old.pt"])
@pytest.mark.parametrize(
    "map_location",
    [
        "cuda",
        "cuda:0",
        torch.device("cuda"),
        {"cpu": "cuda:0"},
        lambda storage, _location: storage.cuda(),
        lambda storage, _location: storage.cuda(0),
    ],
)
def test_what_is_loaded_to_the_gpu_is_counted_once_for_each_storage(parts: Path, name: str, map_location: Any) -> None:
    before = torch.cuda.memory_allocated()
    read = torch.load(parts.with_name(name), map_location=map_location)
    assert all(map(on_gpu, read.values()))
    assert (read["view"].shape, read["view"].stride(), read["view"].storage_offset()) == ((BIG // 2,), (2,), 1)
    assert isinstance(read["weight"], nn.Parameter)
    assert (read["weight"].requires_grad, read["weight"].is_leaf) == (True, True)
    assert torch.cuda.memory_allocated() - before == 4 * BIG + -(-4 * 300 * 300 // 512) * 512
    del read
    assert torch.cuda.memory_allocated() == before


def test_a_large_checkpoint_takes_no_memory_of_the_host(tmp_path: Path) -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    torch.save({"weight": torch.zeros(8192, 4096)}, tmp_path / "large.pt")
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"):
        before = resident_bytes()
        read = torch.load(tmp_path / "large.pt")
        nn.Linear(4096, 8192, bias=False, device="cuda").load_state_dict(read)
        assert resident_bytes() - before < 64 << 20
        assert read["weight"][-1, -1].item() == 0


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("map_location", ["cpu", "cuda"])
def test_a_resumed_training_needs_what_one_from_the_beginning_needs(
    checkpoint: Path, tmp_path: Path, device: str, map_location: str
) -> None:
    def peak(resumes: bool) -> int:
        with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace") as run:
            net = model().to(device)
            if resumes:
                net.load_state_dict(torch.load(checkpoint, map_location=map_location)["model"])
            net.cuda()
            optimizer = torch.optim.AdamW(net.parameters())
            if resumes:
                optimizer.load_state_dict(torch.load(checkpoint, map_location=map_location)["optimizer"])
            for _ in range(3):
                optimizer.zero_grad()
                net(torch.randn(4096, 512, device="cuda")).mean().backward()
                optimizer.step()
        return run.peak.requested_bytes

    # The numbers of steps, which are on the CPU otherwise, come with the file: 4 parameters, 4 bytes.
    assert peak(True) == peak(False) + (16 if map_location == "cuda" else 0)


def test_a_model_that_was_saved_whole_is_loaded(tmp_path: Path) -> None:
    torch.save(model(), tmp_path / "model.pt")
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"):
        net = torch.load(tmp_path / "model.pt", weights_only=False).cuda()
        assert all(map(on_gpu, net.parameters()))
        assert torch.cuda.memory_allocated() > 4 * 512 * 512


@pytest.mark.usefixtures("run")
def test_real_tensors_can_be_pickled_and_copied() -> None:
    net = nn.Linear(4, 4)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert torch.equal(other.weight, net.weight)


@pytest.mark.usefixtures("run")
def test_pinned_memory_of_the_host_has_values() -> None:
    """Libraries write into it, such as safetensors when it loads to a GPU."""
    made = torch.empty(BIG, dtype=torch.uint8, pin_memory=True)
    made.numpy()[:] = 7
    assert made[-1].item() == 7


@pytest.mark.usefixtures("run")
def test_storages_of_fake_tensors_are_told_apart() -> None:
    first, second = torch.empty(BIG, device="cuda"), torch.empty(BIG)
    addresses = [tensor.untyped_storage().data_ptr() for tensor in (first, second, first.view(-1, 2))]
    assert addresses[0] == addresses[2] == first.data_ptr() != addresses[1] != 0


def test_safetensors_saves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: the function that writes a file gets addresses of tensors, which have no memory in a dry run."""
    package, module = ModuleType("safetensors"), ModuleType("safetensors.torch")
    package.__spec__ = ModuleSpec("safetensors", None)
    file = tmp_path / "model.safetensors"
    file.write_text("before")
    module.serialize_file = lambda *_arguments, **_named: file.write_text("after")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "safetensors", package)
    monkeypatch.setitem(sys.modules, "safetensors.torch", module)
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"), pytest.warns(UserWarning, match="saves nothing"):
        module.serialize_file({}, file)
    assert file.read_text() == "before"
    module.serialize_file({}, file)
    assert file.read_text() == "after"


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
@pytest.mark.usefixtures("run")
def test_what_is_not_saved_is_not_renamed_or_deleted(tmp_path: Path) -> None:
    """Programs save to a temporary name, keep the best checkpoint, and delete old ones."""
    last, best, new = tmp_path / "last.pt", tmp_path / "best.pt", tmp_path / "new.pt"
    last.write_text("last")
    best.write_text("best")
    for _ in range(2):
        torch.save(model().state_dict(), new)
        os.replace(src=new, dst=last)
        assert shutil.copyfile(last, best) == best
        assert shutil.copy(best, tmp_path) == os.path.join(tmp_path, "best.pt")
        os.remove(best)
    torch.save(model().state_dict(), os.fspath(new))
    Path(shutil.move(new, tmp_path / "old.pt")).unlink()
    assert (last.read_text(), best.read_text()) == ("last", "best")
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["best.pt", "last.pt"]


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
@pytest.mark.usefixtures("run")
def test_other_files_are_renamed_and_deleted(tmp_path: Path) -> None:
    torch.save(model().state_dict(), tmp_path / "a")
    (tmp_path / "a").write_text("written by the program itself")
    os.rename(tmp_path / "a", tmp_path / "b")
    shutil.copy2(tmp_path / "b", tmp_path / "c")
    (tmp_path / "b").unlink()
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".vtrace"] == ["c"]
    with pytest.raises(FileNotFoundError):
        os.remove(tmp_path / "a")


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
@pytest.mark.usefixtures("run")
def test_a_folder_is_deleted_with_files_of_the_same_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = tmp_path / "old" / "model.pt"
    old.parent.mkdir()
    old.touch()
    torch.save(model().state_dict(), "model.pt")
    shutil.rmtree("old")
    assert not old.parent.exists()


@pytest.mark.usefixtures("run")
def test_a_sparse_tensor_on_the_gpu_is_refused() -> None:
    with pytest.raises(DryRunError, match=r"test_dry_files\.py:\d+: .*sparse tensor on the GPU"):
        torch.sparse_coo_tensor(torch.tensor([[1]]), torch.tensor([1.0]), (2,), device="cuda", check_invariants=False)


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
@pytest.mark.usefixtures("run")
def test_what_was_to_be_saved_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    saved: dict[str, Any] = {
        "options": argparse.Namespace(layers=[1, 2]),
        "best": np.zeros(2),
        "weight": nn.Parameter(torch.ones(2)),
        "there": nn.Parameter(torch.ones(2, device="cuda")),
        "input": torch.ones(2, requires_grad=True),
    }
    torch.save(saved, path)
    for _ in range(2):  # the program changes what it has loaded, and loads again
        found = torch.load(path, weights_only=False)
        assert (found["options"].layers, found["best"].tolist()) == ([1, 2], [0, 0])
        found["options"].layers.append(3)
        found["best"] += 1
    for name in ("weight", "there", "input"):
        assert isinstance(found[name], nn.Parameter) == isinstance(saved[name], nn.Parameter)
        assert (found[name].requires_grad, found[name].device) == (True, saved[name].device)


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
@pytest.mark.usefixtures("run")
def test_what_contains_itself_is_saved_and_not_loaded(tmp_path: Path) -> None:
    saved: dict[str, Any] = {}
    saved["this"] = saved
    torch.save(saved, tmp_path / "last.pt")
    with pytest.raises(DryRunError, match="finds nothing"):
        torch.load(tmp_path / "last.pt")


SHARDS = "torch.distributed.checkpoint"


@pytest.mark.parametrize("is_imported", [True, False])
def test_checkpoints_of_all_ranks_are_left_out(
    is_imported: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of what each rank writes has only that of this one, and PyTorch refuses it."""
    from torch.distributed.fsdp import fully_shard

    importlib.import_module(SHARDS)
    if not is_imported:
        for name in [name for name in sys.modules if name.startswith(SHARDS)]:
            monkeypatch.delitem(sys.modules, name)
    before = list(sys.meta_path)
    with dry_run(path=tmp_path / "dry.vtrace", world_size=4):
        checkpoint: Any = importlib.import_module(SHARDS)
        trained: Any = fully_shard(model().cuda())
        state = {"model": trained.state_dict(), "epoch": 3}
        with pytest.warns(UserWarning, match=r"saves nothing: torch.distributed.checkpoint.save\(\) is left out"):
            checkpoint.save(state, checkpoint_id=tmp_path / "step-1")
        checkpoint.load(state, checkpoint_id=tmp_path / "step-1")
        assert state["epoch"] == 3
        with pytest.warns(UserWarning, match="saves nothing"):
            checkpoint.async_save(state, checkpoint_id=tmp_path / "step-2").result()
    assert not (tmp_path / "step-1" / ".metadata").exists()
    assert sys.meta_path == before
    single = {"weight": torch.ones(3)}
    checkpoint.save(single, checkpoint_id=tmp_path / "step-1", no_dist=True)
    assert (tmp_path / "step-1" / ".metadata").exists(), "real again"

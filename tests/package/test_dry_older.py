"""Checkpoints from before a dry run stay as they are, whatever the program does when it saves others."""

# mypy: allow-untyped-calls

from __future__ import annotations

import builtins
import io
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vram.dry import dry_run

OLDER = [
    "last.pt",
    "best.pth.tar",
    "epochs/1/model.safetensors",
    "epochs/1/pytorch_model-00001-of-00002.bin",
    "my.ckpt",
]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "output"
    for name in OLDER:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "log.txt").write_text("log")
    time.sleep(0.02)  # times of files are not as fine as those of the clock
    with dry_run(path=tmp_path / "dry.vtrace"):
        yield folder
    assert [(folder / name).read_text() for name in OLDER] == OLDER


def keeps(name: str) -> Any:
    return pytest.warns(UserWarning, match=f"it keeps .*{name}")


def test_a_file_that_is_opened_to_save_to_it(folder: Path) -> None:
    with keeps("last.pt"), (folder / "last.pt").open("wb") as file:
        torch.save({"weight": torch.ones(3)}, file)
    buffer = io.BytesIO()
    torch.save({"weight": torch.ones(3)}, buffer)  # as Lightning does it
    with keeps("my.ckpt"), open(folder / "my.ckpt", mode="wb") as file:
        file.write(buffer.getvalue())
    with open(folder / "last.pt", "rb") as file:
        assert file.read() == b"last.pt"


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
def test_an_older_file_that_is_renamed_or_deleted_first(folder: Path) -> None:
    os.replace(folder / "last.pt", folder / "best.pth.tar")
    torch.save({}, folder / "last.pt")
    (folder / "my.ckpt").unlink()
    torch.save({}, folder / "new.ckpt")
    os.rename(src=folder / "new.ckpt", dst=folder / "my.ckpt")
    with open(folder / "written.tmp", "wb") as file:
        torch.save({}, file)
    shutil.move(folder / "written.tmp", folder / "last.pt")
    assert shutil.copy(folder / "log.txt", folder / "last.pt") == folder / "last.pt"


@pytest.mark.filterwarnings("ignore:a dry run saves nothing")
def test_older_epochs_that_are_deleted(folder: Path) -> None:
    os.makedirs(folder / "epochs" / "2")
    torch.save({}, folder / "epochs" / "2" / "model.pt")
    with keeps("epochs/1"):
        shutil.rmtree(folder / "epochs" / "1", ignore_errors=True)
    for file in (folder / "epochs" / "1").iterdir():
        file.unlink()
    (folder / "epochs" / "1").rmdir()
    os.remove(folder / "log.txt")
    assert not (folder / "log.txt").exists()


def test_a_folder_that_is_made_again(folder: Path) -> None:
    with keeps("output"):
        shutil.rmtree(folder)
    os.makedirs(folder / "epochs" / "1")
    for made in ("epochs/1", "epochs/2"):
        os.makedirs(folder / made, exist_ok=made == "epochs/1")
        with pytest.raises(FileExistsError):
            os.makedirs(folder / made)


def test_other_files_are_written_and_deleted(tmp_path: Path) -> None:
    older = tmp_path / "train.bin"
    older.write_text("older")
    time.sleep(0.02)
    before = builtins.open, os.remove, shutil.rmtree
    with dry_run(path=tmp_path / "dry.vtrace"):
        older.write_text("newer")
        new = tmp_path / "new.pt"
        new.write_text("the program's own")
        time.sleep(0.02)
        new.write_text("again")
        assert (older.read_text(), new.read_text()) == ("newer", "again")
        os.remove(new)
        os.remove(older)
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "new.pt").touch()
        shutil.rmtree(tmp_path / "folder")
        with pytest.raises(FileNotFoundError):
            shutil.rmtree(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["dry.vtrace"]
    assert (builtins.open, os.remove, shutil.rmtree) == before


@pytest.mark.parametrize("name", ["model.pkl", "best"])
def test_what_is_saved_to_an_open_file_keeps_what_was_there(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("older")
    time.sleep(0.02)
    with dry_run(path=tmp_path / "dry.vtrace"):
        with open(path, "wb") as file:
            torch.save({"weight": torch.ones(3, device="cuda")}, file)
        with open(path, "rb") as file:
            assert torch.load(file)["weight"].shape == (3,)
        assert torch.load(path)["weight"].shape == (3,)
    assert path.read_text() == "older"


def test_other_files_are_written_as_ever(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("older")
    time.sleep(0.02)
    with dry_run(path=tmp_path / "dry.vtrace"):
        with open(paths[0], "wb") as file:
            assert file.tell() == 0
            file.write(b"newer")
            assert (file.tell(), file.name) == (5, paths[0])
            file.seek(0)
            file.write(b"N")
        with open(paths[1], "wb"):
            pass
        with open(paths[2], "wb") as file:
            os.write(file.fileno(), b"by number")
    assert [path.read_text() for path in paths] == ["Newer", "", "by number"]


def test_no_empty_files_stay_where_nothing_was_saved(tmp_path: Path) -> None:
    """A real run would load them."""
    path = tmp_path / "model"
    with dry_run(path=tmp_path / "dry.vtrace"):
        with open(path, "wb") as file:
            torch.save(torch.ones(3, device="cuda"), file)
        assert torch.load(path).shape == (3,)
        (tmp_path / "log").touch()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dry.vtrace", "log"]


def test_a_buffer_gives_back_what_was_saved_to_it(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        buffer, other = io.BytesIO(), io.BytesIO()
        torch.save({"weight": torch.ones(3, 4, device="cuda"), "epoch": 2}, buffer)
        buffer.seek(0)
        read = torch.load(buffer, map_location="cpu")
        assert (read["weight"].shape, read["weight"].device.type, read["epoch"]) == ((3, 4), "cpu", 2)
        with pytest.raises(Exception, match="saves nothing"):
            torch.load(other)


class WithRest(nn.Module):
    """With a tensor that is neither a parameter nor a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.rest = nn.Linear(4, 4), [torch.ones(3, device="cuda")]


MODULES = {
    "layers": lambda: nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.Dropout(0.1), nn.Linear(512, 8)),
    "recurrent": lambda: nn.LSTM(64, 128, 2),
    "attention": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4), 2, enable_nested_tensor=False),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_model_that_is_saved_as_a_whole_can_be_loaded(name: str, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        model = MODULES[name]().cuda()
        before = torch.cuda.memory_allocated()
        torch.save({"model": model, "epoch": 3}, tmp_path / "model.pt")
        assert torch.cuda.memory_allocated() == before
        read = torch.load(tmp_path / "model.pt", weights_only=False)
        assert read["epoch"] == 3
        other = read["model"]
        assert torch.cuda.memory_allocated() >= before + sum(each.nbytes for each in model.parameters())
        for (key, old), (same, new) in zip(model.state_dict().items(), other.state_dict().items(), strict=True):
            assert (key, old.shape, old.device) == (same, new.shape, new.device)
            assert old is not new
        assert all(isinstance(each, nn.Parameter) and each.requires_grad for each in other.parameters())
        other(torch.ones(2, 3, 64, device="cuda") if name != "layers" else torch.ones(2, 512, device="cuda"))
        on_host = torch.load(tmp_path / "model.pt", map_location="cpu", weights_only=False)["model"]
        assert {each.device.type for each in on_host.parameters()} == {"cpu"}


def test_a_model_with_other_tensors_is_not_copied(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        torch.save(WithRest().cuda(), tmp_path / "model.pt")
        with pytest.raises(Exception, match="saves nothing"):
            torch.load(tmp_path / "model.pt", weights_only=False)

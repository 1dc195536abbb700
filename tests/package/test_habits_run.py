"""Each row of src/cli/habits.toml runs: commands on a machine with the GPUs of fake_nvml, Python with PyTorch on the CPU."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import lzma
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import BINARY, ROOT

import vram

HABITS = tomllib.loads((ROOT / "src/cli/habits.toml").read_text(encoding="utf-8"))["habit"]
COMMANDS = sorted({row["now"] for row in HABITS if row["now"].startswith("vram ")})
SNIPPETS = sorted({row["now"] for row in HABITS if not row["now"].startswith("vram ")})
LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 1000, "max_position_embeddings": 512, "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
}  # fmt: skip
# Checks fail on a machine whose GPUs have no driver.
CODES = {"vram doctor": (0, 1, 3), "vram free --all": (0, 1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings, a model's configuration and a program, by the names that the rows use."""
    path = tmp_path_factory.mktemp("habits")
    snapshot = lzma.decompress((ROOT / "demo/leak.stacks.pickle.xz").read_bytes())
    (path / "snapshot.pickle").write_bytes(snapshot)
    subprocess.run([BINARY, "convert", "snapshot.pickle", "run.vtrace"], cwd=path, check=True, timeout=60)
    (path / "config.json").write_text(json.dumps(LLAMA))
    (path / "train.py").write_text("print('trained')\n")
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, folder: Path, tmp_path: Path) -> None:
    for name in ("snapshot.pickle", "config.json", "train.py"):
        (tmp_path / name).symlink_to(folder / name)
    if "--record" not in command:
        (tmp_path / "run.vtrace").symlink_to(folder / "run.vtrace")
    library = Path(BINARY).parents[1] / "tests/fake_nvml/3/libnvidia-ml.so.1"
    words = [str(BINARY), *shlex.split(command.replace("-- python", f"-- {sys.executable}"))[1:]]
    startup = ROOT / "python/vram/_startup"
    environment = os.environ | {"VRAM_NVML": str(library), "VRAM_STARTUP": str(startup), "LC_ALL": "C.UTF-8"}
    if command == "vram top":
        words.append("--once")  # it would go on for ever
    process = subprocess.Popen(
        words, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if "--watch" in command:
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode in CODES.get(command, (0,)), errors
    assert output or "train.py" in command


class Writer:
    """Has the function of TensorBoard's SummaryWriter that is called."""

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        pass


class Step(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


def names_of_the_rows() -> dict[str, Any]:
    """What a program has when it comes to one of the lines."""
    model = Step()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = {"x": torch.randn(16, 64)}

    def train_step() -> None:
        model(batch["x"]).sum().backward()

    def train() -> None:
        copy = Step().cuda()
        of_copy = torch.optim.SGD(copy.parameters(), lr=0.1)
        while True:
            copy(torch.randn(16, 64, device="cuda")).sum().backward()
            of_copy.step()
            of_copy.zero_grad()

    def trial(size: int) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        copy = Step().to(device)
        copy(torch.randn(size, 64, device=device)).sum().backward()

    return {
        "vram": vram, "torch": torch, "model": model, "optimizer": optimizer, "batch": batch, "train_step": train_step,
        "train": train, "step": lambda part: model(part["x"]).square().mean(), "predict": lambda x: model(x), "trial": trial,
        "sample": torch.randn(16, 64), "loss": lambda output: output.square().mean(), "writer": Writer(),
    }  # fmt: skip


@pytest.mark.parametrize("code", SNIPPETS)
@pytest.mark.filterwarnings("ignore")
def test_a_line_of_python_runs(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = next((row["needs"] for row in HABITS if row["now"] == code and "needs" in row), None)
    if needs:
        pytest.importorskip(needs)
    monkeypatch.chdir(folder)
    exec(code, names_of_the_rows())


@pytest.mark.parametrize("row", HABITS, ids=lambda row: row["words"][0])
def test_help_finds_every_word(row: dict[str, Any]) -> None:
    for word in row["words"]:
        for language, label in (("en_US.UTF-8", "en"), ("zh_CN.UTF-8", "zh")):
            environment = os.environ | {"LC_ALL": language}
            done = subprocess.run([BINARY, "help", word], env=environment, text=True, capture_output=True, timeout=60)
            assert done.returncode == 0, done.stderr
            assert row["now"] in done.stdout
            assert row["today"] in done.stdout
            shown = " ".join(done.stdout.split())
            text = row["zh"] if label == "zh" or not word.isascii() else row["en"]
            assert text in shown


@pytest.mark.parametrize(
    ("typed", "today"),
    [
        (["tf.config.experimental.set_memory_growth(gpu, True)"], "set_memory_growth"),
        (["torch.cuda.EMPTY_CACHE()"], "empty_cache"),
        (["nvidia-smi", "-l", "1"], "nvidia-smi -l 1"),
        (["怎么清空显存"], "empty_cache"),
    ],
)
def test_help_finds_what_contains_a_word(typed: list[str], today: str) -> None:
    done = subprocess.run([BINARY, "help", *typed], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert today in done.stdout.splitlines()[0]


def test_a_word_that_nothing_contains() -> None:
    done = subprocess.run([BINARY, "help", "zzz"], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        2,
        "vram: error: unknown command 'zzz'; 'vram --help' lists the commands\n",
    )


def test_an_unknown_command_that_is_a_habit() -> None:
    done = subprocess.run([BINARY, "nvidia-smi"], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert (
        done.stderr
        == "vram: error: unknown command 'nvidia-smi'; use this instead: vram status ('vram help nvidia-smi' explains it)\n"
    )

"""python -m vram.dry: a dry run of a script, its exit codes, and what it prints where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vram.dry.__main__ import main

TRAINING = """
import os, sys, torch
from torch import nn
print("from the script", sys.argv[1:])
os.write(1, b"from a library\\n")
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(1000):
    loss = model(torch.ones(8, 256, device="cuda")).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    CHECK
raise RuntimeError("was not stopped")
"""


@pytest.fixture(autouse=True)
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a script changes in its process."""
    monkeypatch.setattr(sys, "argv", ["vram.dry"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def script(folder: Path, text: str) -> str:
    path = folder / "train.py"
    path.write_text(text)
    return str(path)


def training(folder: Path, check: str = "pass") -> str:
    return script(folder, TRAINING.replace("CHECK", check))


def test_it_is_stopped_and_its_results_are_all_of_standard_output(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "dry.vtrace"
    options = ["--gpu", "24GiB", "--steps", "3", "--json"]
    assert main([*options, "--output", str(trace), training(tmp_path), "--rows", "8"]) == 0
    output = capfd.readouterr()
    answer = json.loads(output.out)
    assert (answer["steps"], answer["fits"]["fits"], answer["trace"]) == (3, True, str(trace))
    assert trace.stat().st_size > 0
    assert "from the script ['--rows', '8']\n" in output.err
    assert "from a library\n" in output.err
    assert main([*options, training(tmp_path)]) == 0
    assert json.loads(capfd.readouterr().out)["trace"] is None


def test_without_json_the_script_prints_as_ever(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu", "24GiB", training(tmp_path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert "from the script []" in lines
    assert lines[-1].startswith("fits on GPU of 24 GiB: needs ")


def test_values_that_it_reads_are_named_and_can_be_assumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training(tmp_path, "if loss.item() < 0: break")
    assert main(["--gpu", "24GiB", path]) == 2
    assert "train.py:11: lt() of a value" in capsys.readouterr().err
    assert main(["--gpu", "24GiB", "--assume", "train.py:11=0.5", path]) == 0


FAILING = """
def fail():
    raise ValueError("of the script")
fail()
"""


def test_an_exception_of_the_script_is_shown_as_python_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, FAILING)
    assert main(["--gpu", "24GiB", "--json", path]) == 1
    output = capsys.readouterr()
    alone = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=60)
    assert output.out == ""
    assert output.err == alone.stderr


def test_a_file_that_was_not_saved_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    missing = tmp_path / "model.safetensors"
    path.write_text(f"import torch\ntorch.save(torch.ones(3, device='cuda'), 'm.pt')\nopen({str(missing)!r})")
    text = "a dry run saves nothing: if the file is one"
    assert main(["--gpu", "24GiB", str(path)]) == 1
    assert text in capsys.readouterr().err
    path.write_text(f"open({str(missing)!r})")
    assert main(["--gpu", "24GiB", str(path)]) == 1
    assert text not in capsys.readouterr().err


@pytest.mark.parametrize("failure", ["assert loss.item() < 0", "raise KeyError('accuracy')"])
def test_what_was_needed_until_a_failure_is_printed(
    failure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As most programs compare a metric, or write a file, after their first epoch."""
    for step in (0, 2):
        main(["--gpu", "24GiB", "--steps", "9", "--json", training(tmp_path, f"if step == {step}: {failure}")])
        output = capsys.readouterr()
        assert output.out == ""
        last = output.err.splitlines()[-1]
        expected = "until then, 3 steps of the optimizer: fits on GPU of 24 GiB: needs "
        assert last.startswith(expected) if step else "until then" not in output.err


def test_warnings_of_the_run_name_no_line_of_vram(tmp_path: Path) -> None:
    """Nor do they show the text of one."""
    check = (
        "import warnings; warnings.warn('of the script'); nn.GRU(8, 8).cuda()(torch.ones(4, 2, 8).cuda()); sys.exit()"
    )
    path = script(tmp_path, TRAINING.replace("0.1)", "0.1, momentum=0.9)").replace("CHECK", check))
    command = [sys.executable, "-m", "vram.dry", "--gpu", "24GiB", path]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    lines = done.stderr.splitlines()
    assert any(line.startswith("warning: the workspaces of these operators are estimated") for line in lines)
    assert any(line.endswith("train.py:11: UserWarning: of the script") for line in lines)
    assert any(line.startswith("warning: the optimizer stepped once") for line in lines)
    assert not any("vram/dry" in line or "stopped_after" in line for line in lines)


def test_a_script_that_tries_sizes_is_told_how_to_run_out_of_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "import torch; torch.empty(1 << 50, device='cuda')")
    assert main(["--gpu", "24GiB", path]) == 2
    assert "memory runs out needs raise_oom=True (--raise-oom)" in capsys.readouterr().err


def test_its_exit_code(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end:
        main([script(tmp_path, "raise SystemExit(7)")])
    assert end.value.code == 7


OUT_OF_MEMORY = """
import torch
kept = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
more = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
"""


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        (["--raise-oom", "--gpu", "1700MiB"], ""),
        (["--gpu", "24GiB"], "torch.cuda.set_per_process_memory_fraction(0.03)"),
    ],
    ids=["of the GPU", "of the script"],
)
def test_a_script_that_runs_out_of_memory_does_not_fit(
    options: list[str], limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, OUT_OF_MEMORY.replace("import torch", f"import torch; {limit}"))
    assert main([*options, "--json", path]) == 1
    output = capsys.readouterr()
    answer: dict[str, Any] = json.loads(output.out)
    assert answer["fits"]["fits"] is False
    assert 600 << 20 <= answer["peak"]["requested_bytes"] < 601 << 20
    lines = output.err.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{path}", line 4, in <module>']
    assert any(line.startswith("torch.OutOfMemoryError: CUDA out of memory.") for line in lines)


def test_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    package = tmp_path / "trainer"
    package.mkdir()
    training(package)
    monkeypatch.chdir(tmp_path)
    assert main(["--gpu", "24GiB", "-m", "trainer.train", "--rows", "8"]) == 0
    assert "from the script ['--rows', '8']" in capsys.readouterr().out


def test_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu", "Voodoo 3", __file__]) == 2
    assert "'Voodoo 3' is neither a known GPU" in capsys.readouterr().err
    assert main(["--steps", "0", __file__]) == 2
    assert "expected steps to be at least 1, got 0" in capsys.readouterr().err
    assert main(["/nowhere/train.py"]) == 2
    assert capsys.readouterr().err == "error: no file /nowhere/train.py\n"


def test_threads_that_a_stopped_script_leaves_do_not_hold_the_process_up(tmp_path: Path) -> None:
    waits = "import queue, threading; threading.Thread(target=queue.Queue().get, name='waits').start()"
    path = script(tmp_path, TRAINING.replace("CHECK", waits))
    program = "import vram.dry.__main__ as main; main._MAX_WAIT_SECONDS = 0.1"
    command = f"{program}; main.end_with(main.main(['--gpu', '24GiB', {path!r}]))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "python")}
    done = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=False, timeout=120, env=environment
    )
    assert (done.returncode, "\nfits on" in done.stdout) == (0, True)
    assert "threads of the script have not ended: waits" in done.stderr

"""vram run --dry: the script's own command line becomes that of its dry run.

VRAM_BINARY names the program under test; the library is the one next to it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from program import BINARY, IS_SANITIZED, ROOT, vram

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have no libvram.so")

SCRIPT = """
import os, subprocess, sys, torch
print("words:", sys.argv, sys.flags.dont_write_bytecode)
subprocess.run([sys.executable, "-c", "import os; print('inherited:', 'VRAM_DRY' in os.environ)"], check=True)
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
while True:
    optimizer.zero_grad()
    model(torch.ones(8, 256, device="cuda")).mean().backward()
    optimizer.step()
"""


def run_dry(*words: object) -> "subprocess.CompletedProcess[str]":
    """The package is not installed in the interpreter that runs the script: it is that of the startup folder."""
    return vram(
        "run", "--dry", *words,
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"), VRAM_LIBRARY=str(Path(BINARY).with_name("libvram.so")),
    )  # fmt: skip


def test_a_script_with_options_of_python_and_its_own(tmp_path: Path) -> None:
    script, trace = tmp_path / "train.py", tmp_path / "dry.vtrace"
    script.write_text(SCRIPT)
    options = ["--gpu", "24GiB", "--steps", 3, "--json", "--output", trace]
    done = run_dry(*options, "--", sys.executable, "-B", "-W", "ignore", script, "--gpu", "mine")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["steps"], answer["fits"]["fits"], answer["trace"]) == (3, True, str(trace))
    assert done.stderr.splitlines() == [f"words: ['{script}', '--gpu', 'mine'] 1", "inherited: False"]
    assert vram("report", trace).returncode == 0


READING = """
import torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
while True:
    loss = model(torch.ones(8, 256, device="cuda")).mean()
    loss.backward()
    optimizer.step()
    if loss.item() < 0.5 and torch.randn(3, device="cuda").tolist()[0] > 0: break
"""


def test_what_to_assume_is_stated_as_the_error_says(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(READING)
    command = ["--", sys.executable, "-W", "ignore", script]
    done = run_dry("--gpu", "24GiB", *command)
    assert done.returncode == 2
    assert "state what to assume with --assume train.py:9=0.5, or leave" in done.stderr
    stated = ["--assume", "train.py:9=0.5", "--assume", "train.py:1=1"]
    assert run_dry("--gpu", "24GiB", *stated, *command).returncode == 0


def test_the_exit_code_of_a_program_that_may_not_fit(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = run_dry("--gpu", "512MiB", "--", sys.executable, "-W", "ignore", tmp_path / "train.py")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("may not fit on GPU of 512 MiB: needs ")

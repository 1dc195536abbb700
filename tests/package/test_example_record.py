"""examples/record.py works without a GPU, and with memory of vram's pool on the tests' driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["VRAM_LIBRARY"]).parents[1]
DRIVER = BUILD / "tests" / "fake_cuda" / "libcuda.so.1"
PROGRAM = BUILD / "src" / "vram"

# A layer's forward takes a block of the pool and keeps it, as it would an activation.
WITH_MEMORY = """
import runpy, sys
import torch
from recorded_pool import Blocks

blocks = Blocks()

def keep(module, _):
    if isinstance(module, torch.nn.Linear):
        blocks.alloc(1_000_000)

torch.nn.modules.module.register_module_forward_pre_hook(keep)
sys.argv = ["record.py", *sys.argv[1:]]
runpy.run_path(EXAMPLE, run_name="__main__")
"""


def run(*words: object, **changes: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT / 'tests/python'}", **changes}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, "-W", "ignore", *map(str, words)]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    ).stdout.splitlines()


def test_without_a_gpu_it_says_that_there_was_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "run.vtrace"
    lines = run(ROOT / "examples/record.py", path)
    sentence = "no GPU memory was used, so there is nothing to explain; `vram demo` shows a report on any machine"
    assert lines == [f"0 events in {path}, 0 lost", sentence]
    assert path.read_bytes().startswith(b"\x89vtrace\n")


@pytest.mark.skipif(not DRIVER.exists() or not PROGRAM.exists(), reason="build the release preset first")
def test_memory_is_told_by_steps_and_scopes(tmp_path: Path) -> None:
    path = tmp_path / "run.vtrace"
    code = f"EXAMPLE = {str(ROOT / 'examples/record.py')!r}\n{WITH_MEMORY}"
    changes = {"VRAM_CUDA_DRIVER": str(DRIVER), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    lines = run("-c", code, path, **changes)
    assert lines[0].endswith(f" events in {path}, 0 lost")
    report = "\n".join(lines[1:])
    assert "4 annotated steps" in report
    assert "7.63 MiB" in report  # 4 steps of 2 layers of 1,000,000 bytes each
    subprocess.run([PROGRAM, "convert", path, tmp_path / "run.jsonl"], check=True, timeout=120)
    events = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    scopes = [event["user_metadata"] for event in events if event["action"] == "alloc"]
    assert scopes == ["forward/Sequential/0", "forward/Sequential/2"] * 4

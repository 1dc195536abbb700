"""A request for memory that really fails leaves a flight recording, before the program learns of it, that names the line."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import os
import signal
import sys
from pathlib import Path

import torch

import vram

folder, allocator, end = sys.argv[1:4]
if allocator == "pool":
    vram.enable(device_limit=2 << 30)
recorder = vram.flight_recorder(folder, steps=5, stacks="python")
torch.cuda.set_per_process_memory_fraction(2 * 2**30 / torch.cuda.mem_get_info()[1])
model = torch.nn.Linear(1024, 1024, device="cuda")
kept = []


def grow():
    kept.append(torch.full((64 << 18,), 1.0, device="cuda"))  # 64 MiB a step


try:
    for step in range(1000):
        vram.step()
        model(torch.ones(256, 1024, device="cuda")).sum().backward()
        grow()
        if step == 12 and end != "oom":
            torch.cuda.synchronize()
            os.kill(os.getpid(), getattr(signal, end))
except torch.cuda.OutOfMemoryError:
    assert any(".oom." in file.name for file in Path(folder).iterdir()), "the file comes first"
    print(torch.cuda.memory_allocated(), flush=True)
"""
LINE = 1 + next(number for number, line in enumerate(PROGRAM.splitlines()) if "64 MiB a step" in line)
WORDS = {"oom": "oom", "SIGTERM": "sigterm", "SIGSEGV": "crash"}


def run(folder: Path, allocator: str, end: str) -> tuple[subprocess.CompletedProcess[str], str]:
    script = folder / "program.py"
    script.write_text(PROGRAM)
    words = [sys.executable, str(script), str(folder / "flights"), allocator, end]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    files = list((folder / "flights").glob(f"flight.*.{WORDS[end]}.vtrace"))
    assert len(files) == 1, (done.stderr, list((folder / "flights").iterdir()))
    report = subprocess.run(
        ["vram", "report", str(files[0]), "--full"], capture_output=True, text=True, check=True, timeout=60
    )
    return done, report.stdout


@pytest.mark.parametrize("allocator", ["native", "pool"])
def test_a_real_failure_leaves_a_recording_that_names_the_line(allocator: str, tmp_path: Path) -> None:
    done, report = run(tmp_path, allocator, "oom")
    assert done.returncode == 0, done.stderr
    assert f"program.py:{LINE}" in report
    print(allocator, "allocated at the failure:", done.stdout.strip())
    print(report)


@pytest.mark.parametrize("end", ["SIGTERM", "SIGSEGV"])
def test_a_signal_leaves_a_recording(end: str, tmp_path: Path) -> None:
    done, report = run(tmp_path, "native", end)
    assert done.returncode == -getattr(signal, end)
    assert "grow" in report

"""Scopes, steps and watched modules as NVTX ranges, received by a stand-in of a profiler's library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from built_once import built_once

HERE = Path(__file__).parent
PROGRAM = """
import sys, threading
sys.path.insert(0, {python!r})
import vram
vram.step()
with vram.scope("forward"):
    with vram.scope("attention"):
        pass
    thread = threading.Thread(target=vram.scope("loader")(lambda: None))
    thread.start()
    thread.join()
vram.step()
from vram import _marks
_marks.functions().scope_end()  # none is open
vram.step()
"""
WATCHED = """
import sys
sys.path.insert(0, {python!r})
import torch, vram
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
vram.watch(model)
with vram.record({file!r}):
    model(torch.ones(1, 2)).sum().backward()
"""


@pytest.fixture(scope="session")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        words: list[str | Path] = ["g++", "-std=c++20", "-shared", "-fPIC", HERE / "injection.cpp"]
        subprocess.run([*words, "-o", folder / "injection.so"], check=True, timeout=60)

    return built_once(tmp_path_factory, "nvtx_injection", build) / "injection.so"


def run(program: str, log: Path, **variables: str) -> list[str]:
    environment = {**os.environ, "INJECTION_LOG": str(log), **variables}
    program = program.format(python=str(HERE.parents[1] / "python"), file=str(log.with_suffix(".vtrace")))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines() if log.exists() else []


def test_scopes_and_steps(injection: Path, tmp_path: Path) -> None:
    received = run(PROGRAM, tmp_path / "log", NVTX_INJECTION64_PATH=str(injection))
    assert received == [
        "start step 0 0 1",
        "push forward 0 0",
        "push attention 0 0",
        "pop - 0 0",
        "push loader 1 0",
        "pop - 1 0",
        "pop - 0 0",
        "start step 1 0 2",
        "end - 0 1",
        "start step 2 0 3",
        "end - 0 2",
    ]


def test_watched_modules(injection: Path, tmp_path: Path) -> None:
    received = run(WATCHED, tmp_path / "log", NVTX_INJECTION64_PATH=str(injection))
    names = [line.split()[1] for line in received if line.startswith("push ")]
    assert names[:4] == ["forward", "Sequential", "0", "1"]
    assert sum(line.startswith("push ") for line in received) == sum(line.startswith("pop ") for line in received)


@pytest.mark.parametrize(
    "variables",
    [{}, {"VRAM_NVTX": "0"}, {"INJECTION_REFUSES": "1"}, {"NVTX_INJECTION64_PATH": "/nowhere.so"}],
    ids=["no profiler", "turned off", "refuses", "missing"],
)
def test_without_a_profiler_the_program_runs_as_ever(
    injection: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    named = {"NVTX_INJECTION64_PATH": str(injection)} if variables else {}
    assert run(PROGRAM, tmp_path / "log", **{**named, **variables}) == []

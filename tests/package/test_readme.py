"""The Python programs of the READMEs, docs/quick-start.md and docs/training-loop.md, and of their translations, run without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def output_of(name: str, folder: Path) -> str:
    """What the Python blocks of a page print, run as one program in this folder."""
    program = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL))
    assert program
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    return done.stdout


@pytest.mark.parametrize("folder", ["docs", "docs/zh"])
def test_the_program_about_the_training_loop_runs(folder: str, tmp_path: Path) -> None:
    printed = output_of(f"{folder}/training-loop.md", tmp_path)
    assert "validation: " in printed
    assert "workspaces: skipped, no GPU is in use" in printed
    assert re.search(r"^loss \d\.\d{3}, 1 micro-batches of 4096$", printed, re.MULTILINE)
    assert (tmp_path / "run.vtrace").stat().st_size > 0


@pytest.mark.parametrize("folder", ["docs", "docs/zh"])
def test_the_program_of_the_quick_start_runs(folder: str, tmp_path: Path) -> None:
    printed = output_of(f"{folder}/quick-start.md", tmp_path)
    assert re.fullmatch(r"mean loss \d\.\d{3}\nloss \d\.\d{3}, 1 micro-batches of 4096\n", printed)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_program_of_the_readme_runs(name: str, tmp_path: Path) -> None:
    printed = output_of(name, tmp_path)
    assert re.search(r"^step: .* loss \d\.\d{3}, 1 micro-batches of 4096$", printed, re.MULTILINE)

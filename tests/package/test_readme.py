"""The program of README.md's section about the training loop runs as it stands, in both languages, without a GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program_of(text: str, heading: str) -> str:
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"```python\n(.*?)```", section, re.DOTALL))


@pytest.mark.parametrize(
    ("name", "heading"), [("README.md", "In the training loop"), ("README.zh-CN.md", "在训练循环里")]
)
def test_its_program_runs(name: str, heading: str, tmp_path: Path) -> None:
    program = program_of((ROOT / name).read_text(), heading)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120
    )
    assert "validation: " in done.stdout
    assert "workspaces: skipped, no GPU is in use" in done.stdout
    assert re.search(r"^loss \d\.\d{3}, 1 micro-batches of 4096$", done.stdout, re.MULTILINE)
    assert (tmp_path / "run.vtrace").stat().st_size > 0


def test_both_show_the_same_program() -> None:
    english, chinese = (
        program_of((ROOT / name).read_text(), heading)
        for name, heading in (("README.md", "In the training loop"), ("README.zh-CN.md", "在训练循环里"))
    )
    without_comments = [re.sub(r" *#.*", "", text) for text in (english, chinese)]
    assert without_comments[0] == without_comments[1]

"""examples/clean.py works without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_names_the_three_leaks_and_cleans_nothing_where_there_is_no_gpu() -> None:
    words = [sys.executable, "-W", "ignore", str(ROOT / "examples/clean.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, timeout=120)
    lines = done.stdout.splitlines()
    # Of a trainer: the weight and the bias with their gradients, and the batch, in float32: 2232320, 591872, 164864 bytes.
    for line, size in zip(lines[1:4], ("2.13 MiB", "578 KiB", "161 KiB"), strict=True):
        assert line.startswith(f"  {size} in 5 tensors: Trainer.layer -> Linear")
        assert "circle: Trainer.on_end -> function <lambda> (clean.py:" in line
    assert lines[4] == "cleaning at epoch:"
    assert lines[-1] == "host: skipped, no GPU is in use"

"""The examples run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "retry_on_oom",
            [
                "4 micro-batches of 24, 2 retries",
                "4 micro-batches of 24, 0 retries",
                "4 micro-batches of 24, 0 retries",
                "predicted 96 samples",
            ],
        ),
        ("batch_size", ["8 samples: held", "24 samples", "56 samples: held 7.38 GiB", "batch size 56: by the line"]),
    ],
)
def test_an_example_runs(name: str, expected: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / f"{name}.py")]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    lines = run.stdout.splitlines()
    assert len(lines) == len(expected), run.stdout
    assert all(text in line for text, line in zip(expected, lines, strict=True)), run.stdout

"""examples/monitor.py works without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_it_logs_and_writes_lines(tmp_path: Path) -> None:
    path = tmp_path / "vram.jsonl"
    words = [sys.executable, "-W", "ignore", str(ROOT / "examples/monitor.py"), str(path)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        timeout=120,
    )
    names = [json.loads(line)["event.action"] for line in path.read_text().splitlines()]
    assert (names.count("forward"), names.count("backward"), names.count("step")) == (10, 10, 2)
    assert names[-1] == "training"
    assert done.stderr.count("step: ") == 2
    assert "23 lines in" in done.stdout

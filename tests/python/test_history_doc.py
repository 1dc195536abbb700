"""docs/history.md: its schema, its example bytes and its program are consistent."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

DOC = (Path(__file__).parents[2] / "docs" / "history.md").read_text()
SUMS = "02 01 00 00 00 01 05 09 01 01 0A 00 06 01 1E 01 1E"  # of 10, 40 and 10, as in chunk_test.cpp


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOC, re.DOTALL)
    assert found
    return found[1]


def history_with(folder: Path, grain_s: int, samples: bytes) -> Path:
    path = folder / "history.db"
    with sqlite3.connect(path) as file:
        file.executescript(block("sql"))
        file.execute("INSERT INTO metric VALUES(5, 'busy_percent', 'percent')")
        file.execute("INSERT INTO device VALUES(1, 'GPU-a', 'Fast 100', 0, NULL)")
        file.execute("INSERT INTO device_chunk VALUES(1, 1, ?, 1200, ?)", (grain_s, samples))
    return path


def printed(path: Path, grain_s: int) -> list[str]:
    program = [sys.executable, "-c", block("python"), str(path), "busy_percent", str(grain_s)]
    return subprocess.run(program, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()


def test_samples(tmp_path: Path) -> None:
    found = re.search(r"are the bytes `([0-9A-F ]+)`", DOC)
    assert found
    path = history_with(tmp_path, 0, bytes.fromhex(found[1]))
    assert printed(path, 0) == [
        "GPU-a 1200.0 90 90 90.0 1",
        "GPU-a 1201.0 90 90 90.0 1",
        "GPU-a 1202.0 91 91 91.0 1",
    ]


def test_sums(tmp_path: Path) -> None:
    path = history_with(tmp_path, 60, bytes.fromhex(SUMS))
    assert printed(path, 60) == ["GPU-a 1200.0 10 40 20.0 3"]

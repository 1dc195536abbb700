"""The pytest plug-in with the real counters and the real history of PyTorch's allocator."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest, torch

def make(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

kept = []

@pytest.mark.vram(peak="64MiB")
def test_at_its_limit():
    make(64)

@pytest.mark.vram(peak="16MiB")
def test_above():
    made = make(64)

def test_keeps():
    kept.append(make(256))

@pytest.mark.vram(peak="16MiB")
def test_after_it(vram_peak):
    assert vram_peak.bytes == 0
    make(8)
    assert vram_peak.bytes == 8 << 20
"""


def test_limits_and_lines(tmp_path: Path) -> None:
    file = tmp_path / "test_limited.py"
    file.write_text(TESTS)
    words: list[str | Path] = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path, file]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
    assert "peak of GPU memory is 64 MiB, above its limit of 16 MiB (measured on " in done.stdout
    assert "64 MiB  test_limited.py:5 make  (1 block)" in done.stdout
    assert "3 tests measured: measured on " in done.stdout

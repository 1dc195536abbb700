"""Tests that are skipped on a developer's machine fail before a release."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from source_files import ROOT

TESTS = """
import pytest

@pytest.fixture
def lacking():
    pytest.skip("debootstrap needs root")

def test_by_fixture(lacking): ...
def test_by_itself():
    pytest.skip("qemu is missing")
@pytest.mark.skipif(True, reason="marked")
def test_by_mark(): ...
@pytest.mark.xfail(strict=True)
def test_expected_to_fail():
    assert False
def test_sound(): ...
"""


@pytest.mark.parametrize(
    ("setting", "summary"), [("", "1 passed, 3 skipped, 1 xfailed"), ("1", "1 failed, 1 passed, 1 xfailed, 2 errors")]
)
def test_skips_are_failures_where_nothing_may_be_skipped(tmp_path: Path, setting: str, summary: str) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/wheels/conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(TESTS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "VRAM_NO_SKIP": setting}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert summary in done.stdout
    assert done.returncode == (1 if setting else 0)
    if setting:
        for reason in ("debootstrap needs root", "qemu is missing", "marked"):
            assert f"this test cannot run here: Skipped: {reason}" in done.stdout

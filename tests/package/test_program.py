"""Where the package finds its program."""

from __future__ import annotations

from pathlib import Path

import pytest

import vram


def test_the_environment_names_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAM_PROGRAM", "/opt/build/vram")
    assert vram.program() == Path("/opt/build/vram")

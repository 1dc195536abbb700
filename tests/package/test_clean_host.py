"""The host's caches: what is written before they are dropped, and what refuses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vram.clean import _host


def test_all_caches_are_dropped_after_the_disks_have_everything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "drop_caches"
    file.touch()
    monkeypatch.setattr(_host, "_DROP_CACHES", file)
    at_sync: list[str] = []
    monkeypatch.setattr(os, "sync", lambda: at_sync.append(file.read_text()))
    _host.drop_caches()
    assert (at_sync, file.read_text()) == ([""], "3")


def test_a_refusal_comes_before_the_disks_are_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_host, "_DROP_CACHES", tmp_path)  # a folder, which root cannot write either
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("wrote the disks for nothing"))
    with pytest.raises(IsADirectoryError):
        _host.drop_caches()


def test_the_host_reports_the_kernels_caches() -> None:
    memory = _host.host_memory()
    assert memory is not None
    assert 0 < memory.slab_bytes < memory.total_bytes

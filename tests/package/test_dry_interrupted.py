"""Dry runs that something ends at an unusual moment: they leave PyTorch, and the recorder, as they were."""

# mypy: allow-untyped-calls

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vram.dry import dry_run
from vram.dry._patches import Patches
from vram.recording import _process


def raising(*_arguments: Any) -> None:
    raise KeyboardInterrupt


def test_a_call_that_fails_keeps_no_other_change_in_place() -> None:
    owner, patches = SimpleNamespace(a=1, b=2), Patches()
    patches.put(owner, "a", 3)
    patches.on_undo(raising)
    patches.put(owner, "b", 4)
    patches.put(owner, "c", 5)
    with pytest.raises(KeyboardInterrupt):
        patches.undo()
    assert owner == SimpleNamespace(a=1, b=2)


def test_a_recording_that_could_not_begin_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_process, "describe", raising)
        with pytest.raises(KeyboardInterrupt):
            dry_run(path=tmp_path / "first.vtrace").__enter__()
    with dry_run(path=tmp_path / "second.vtrace"):
        assert torch.ones(3).cuda().device.type == "cuda"


def test_results_that_fail_end_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), dry_run(path=tmp_path / "dry.vtrace") as run:
        patch.setattr(run._session, "parameters", raising)
    assert torch.empty is empty

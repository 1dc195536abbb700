"""The benchmark of compiled plans (bench/checkpoint_compiled.py) measures models as they train."""

# mypy: allow-untyped-calls

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import pytest
import torch

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.mark.parametrize(("model", "casts"), [("gpt", True), ("resnet", False)])
def test_plans_are_searched_under_the_autocast_of_the_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str, casts: bool
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    checkpoint_job = importlib.import_module("checkpoint_job")

    options = {"rows": tmp_path / "rows.csv", "model": model, "part": "blocks", "budgets": "1", "backend": "eager"}
    child = checkpoint_job.Child(argparse.Namespace(**options, jobs=1, tiny=True))
    with child.search._steps._autocast():
        assert torch.is_autocast_enabled("cpu") == casts
    assert not torch.is_autocast_enabled("cpu")

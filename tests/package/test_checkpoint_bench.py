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


def test_the_table_chooses_by_what_the_search_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    checkpoint_compiled = importlib.import_module("checkpoint_compiled")
    rows = tmp_path / "rows.csv"
    measured = [
        "gpt,keep all,,,200,9.0,9.0,,,GPU",
        "gpt,partitioner,0.99,,100,7.0,7.0,,,GPU",
        *('gpt,tried,"4 with 0.99",,110,6.9,6.9,,,GPU', 'gpt,plan,"4 with 0.99",120,110,7.5,7.5,,,GPU'),
        *('gpt,tried,"4 with 0",,90,8.0,8.0,,,GPU', 'gpt,plan,"4 with 0",105,90,6.5,6.5,,,GPU'),
    ]
    rows.write_text("\n".join([",".join(checkpoint_compiled.FIELDS), *measured]))
    lines = checkpoint_compiled.table(rows).splitlines()
    assert "| 4 with 0.99 | 0.00 GB, 91.7 % | 7.5 ms | 7.0 ms" in lines[2]
    assert "| the whole model with 0.99 | 0.00 GB, 95.2 % | 7.0 ms |" in lines[3]

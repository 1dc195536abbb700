"""The models of tests/data/plan/models have as many parameters as those of Transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed; tools/requirements-torch.txt has the version")
WHY = "is not installed; tools/requirements-frameworks.txt has the versions"
transformers: Any = pytest.importorskip("transformers", reason=f"transformers {WHY}")

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "plan"
COUNTS = json.loads((DATA / "parameter_counts.json").read_text())


def model_of(name: str) -> Any:
    """Return Transformers' own model, on the meta device, where it has no memory."""
    values = json.loads((DATA / "models" / f"{name}.json").read_text())
    model_class = getattr(transformers, values["architectures"][0])
    with torch.device("meta"):
        model = model_class(model_class.config_class(**values))
    model.tie_weights()
    return model


@pytest.mark.parametrize("name", COUNTS)
def test_the_number_of_parameters_is_that_of_the_model(name: str) -> None:
    model = model_of(name)
    assert sum(each.numel() for each in model.parameters()) == COUNTS[name]

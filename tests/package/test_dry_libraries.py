"""Dry runs of programs whose libraries read values: images that are saved, and metrics that check what they get."""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import dry_run
from vram.dry._values import DryRunError


def dry(tmp_path: Path) -> Any:
    return dry_run(path=tmp_path / "dry.vtrace")


def imported(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


SAVED = """
import torch
def image(x):
    return x.mul(255).clamp_(0, 255).to("cpu", torch.uint8).numpy()
"""


def test_a_library_reads_images_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision.utils.save_image() does."""
    library = imported("vram_saving_library", SAVED, tmp_path / "site-packages", monkeypatch)
    with dry(tmp_path), pytest.warns(UserWarning, match="those of zeros"):
        images = library.image(torch.randn(8, device="cuda"))
    assert images.tolist() == [0] * 8


METRICS = """
import torch
def validate(target, classes):
    if len(torch.unique(target)) > classes:
        raise RuntimeError("too many")
    if torch.any((torch.unique(target) != 0) & (torch.unique(target) != 1)):
        raise RuntimeError("not 0 or 1")
def is_empty(target):
    return not target.sum()
"""


def test_torchmetrics_finds_labels_and_predictions_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = imported("vram_metrics", METRICS, tmp_path / "site-packages" / "torchmetrics", monkeypatch)
    with dry(tmp_path):
        found = torch.randn(8, 2, device="cuda").argmax(1)
        metrics.validate(found, 2)
        assert not metrics.is_empty(found)
        with pytest.raises(RuntimeError, match="too many"):
            metrics.validate(torch.randn(8, 5, device="cuda").argmax(1), 2)


def test_distinct_numbers_are_at_most_those_that_there_can_be(tmp_path: Path) -> None:
    with dry(tmp_path):
        found = torch.randn(64, 5, device="cuda").argmax(1)
        assert torch.unique(found).shape == (5,)
        assert torch.unique_consecutive(found.cpu()).tolist() == [4] * 64
        assert torch.unique(found - 1).shape == (64,)
        assert torch.unique(torch.randn(64, device="cuda")).shape == (64,)
        assert torch.unique(torch.randn(64, device="cuda") > 0).shape == (2,)


def test_a_truth_value_is_a_number(tmp_path: Path) -> None:
    """As programs add up which of their predictions are right."""
    with dry(tmp_path):
        found = torch.randn(8, device="cuda") > 0
        assert sum(int(each) for each in found.cpu()) == 8
        assert str(float(found[0])) == "1.0"
        with pytest.raises(DryRunError, match="item"):
            bool(found[0])


def test_a_line_is_warned_about_once(tmp_path: Path) -> None:
    """As by warnings.warn(). Another dry run warns again."""
    for _ in range(2):
        with warnings.catch_warnings(record=True) as warned, dry(tmp_path):
            warnings.simplefilter("default")
            loss, kept = torch.ones(3, device="cuda").requires_grad_().sum(), torch.zeros(1)
            for _ in range(3):
                kept.copy_(loss)
        assert [str(each.message)[:20] for each in warned] == ["aten::copy_ writes v"]


def test_a_view_that_cannot_be_is_an_error_as_pytorchs(tmp_path: Path) -> None:
    with dry(tmp_path), pytest.raises(RuntimeError, match="view"):
        torch.randn(4, 5, device="cuda").t().view(-1)


def test_weights_are_made_orthogonal(tmp_path: Path) -> None:
    """PyTorch asks whether they are already."""
    with dry(tmp_path):
        layer: Any = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(64, 64).cuda())
        layer(torch.ones(4, 64, device="cuda")).sum().backward()
        assert layer.parametrizations.weight.original.grad.shape == (64, 64)


SCALED = """
def scale(size):
    return max(1e-3, size)
"""


def test_adafactor_of_transformers_scales_by_the_size_of_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    optimization = imported("optimization", SCALED, tmp_path / "site-packages" / "transformers", monkeypatch)
    with dry(tmp_path):
        assert optimization.scale(torch.randn(8, device="cuda").norm()).device.type == "cuda"

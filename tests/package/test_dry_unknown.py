"""Operators without rules: each is named in a warning, because its kernels may allocate more than their results."""

# mypy: allow-untyped-calls

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import dry_run
from vram.dry._values import DryRunError

LINALG: dict[str, Callable[[Any], Any]] = {
    "_linalg_svd": torch.linalg.svd,
    "_linalg_eigh": torch.linalg.eigvalsh,
    "linalg_cholesky_ex": torch.linalg.cholesky,
    "linalg_inv_ex": torch.linalg.inv,
    "linalg_qr": torch.linalg.qr,
    "_linalg_det": torch.linalg.det,
    "_linalg_slogdet": torch.linalg.slogdet,
    "linalg_lu_factor_ex": torch.linalg.lu_factor,
    "_linalg_solve_ex": lambda a: torch.linalg.solve(a, a),
    "linalg_pinv": torch.linalg.pinv,
    "linalg_matrix_exp": torch.linalg.matrix_exp,
}


@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra_is_named(name: str, tmp_path: Path) -> None:
    expected = pytest.warns(UserWarning, match=f"no rule says what the kernels .* aten.{name}")
    with expected, dry_run(path=tmp_path / "dry.vtrace") as run:
        LINALG[name](torch.empty(32, 32, device="cuda"))
    assert any(each.startswith(f"aten.{name}.") for each in run.unknown_operators)
    assert not run.fits or run.relative_error >= 0.05


def ran(thread: threading.Thread) -> None:
    thread.start()
    thread.join(timeout=60)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(1 << 20, device="cuda"),
        lambda: torch.ones(1 << 20).pin_memory().to("cuda", non_blocking=True),
        lambda: torch.ones(4).cuda(),
    ],
)
def test_a_thread_that_catches_the_error_is_named_by_a_warning(make: Any, tmp_path: Path) -> None:
    errors: list[Exception] = []

    def prefetch() -> None:
        try:
            make()
        except Exception as error:
            errors.append(error)

    with dry_run(path=tmp_path / "dry.vtrace"), pytest.warns(UserWarning, match="in a thread that did not begin"):
        ran(threading.Thread(target=prefetch))
    assert isinstance(errors[0], DryRunError)
    assert "test_dry_unknown.py:" in str(errors[0])


def test_a_thread_whose_memory_is_missing_is_said(tmp_path: Path) -> None:
    before = threading.excepthook
    other = threading.Thread(target=lambda: torch.empty(1 << 20, device="cuda"))
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        torch.empty(1 << 20, device="cuda")
        with pytest.warns(UserWarning, match="lacks the memory of others"):
            ran(other)
    assert run.peak.requested_bytes == 4 << 20
    assert threading.excepthook is before

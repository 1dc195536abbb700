"""Operators without rules: each is named in a warning, because its kernels may allocate more than their results."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from vram.dry import DryRun, dry_run

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
    assert run.relative_error * run.fits.needed_bytes > 24 << 20


def of_an_unknown_operator(elements: int, path: Path) -> DryRun:
    expected = pytest.warns(UserWarning, match="no rule says")
    with expected, dry_run("24GiB", path=path) as run:
        torch.empty(1 << 30, device="cuda")
        torch.linalg.cholesky(torch.empty(elements, elements, device="cuda"))
    return run


def test_the_margin_grows_with_the_operands_of_an_operator_without_rules(tmp_path: Path) -> None:
    for elements in (64, 5000):
        run = of_an_unknown_operator(elements, tmp_path / f"{elements}.vtrace")
        needed_bytes = run.fits.needed_bytes
        added_bytes = (24 << 20) + 2 * 4 * elements**2
        assert run.relative_error * needed_bytes == pytest.approx(
            math.hypot(8 << 20, 0.0003 * needed_bytes, added_bytes), rel=0.01
        )
    huge = of_an_unknown_operator(20000, tmp_path / "huge.vtrace")
    assert huge.relative_error == pytest.approx(0.05, rel=0.01)


def square(*size: int) -> Any:
    return torch.randn(*size, device="cuda")


def gradient(call: Callable[[Any], Any], *size: int) -> None:
    x = square(*size).requires_grad_()
    call(x).sum().backward()


@torch.no_grad()
def flash() -> object:
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.FLASH_ATTENTION):
        query = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16)
        return F.scaled_dot_product_attention(query, query, query)


def sharded() -> None:
    model: Any = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).cuda()
    torch.distributed.fsdp.fully_shard(model[0])
    torch.distributed.fsdp.fully_shard(model)
    model(square(4, 8)).sum().backward()
    norm: Any = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    norm.full_tensor()
    torch.distributed.all_reduce(square(8))


# What training programs call besides the operators that the programs of bench/prediction had, and what they allocate is known.
KNOWN: dict[str, Callable[[], object]] = {
    "copies of modules": lambda: copy.deepcopy(nn.Linear(8, 8).cuda()),
    "warped images": lambda: gradient(
        lambda x: F.grid_sample(x, F.affine_grid(square(2, 2, 3), [2, 3, 8, 8], False)), 2, 3, 8, 8
    ),
    "warped volumes": lambda: gradient(
        lambda x: F.grid_sample(x, F.affine_grid(square(2, 3, 4), [2, 3, 4, 4, 4], False)), 2, 3, 4, 4, 4
    ),
    "distances": lambda: gradient(lambda x: torch.cdist(x, square(40, 16)), 40, 16),
    "distances of first order": lambda: gradient(lambda x: torch.cdist(x, square(40, 16), p=1), 40, 16),
    "an index": lambda: square(8, 8).index_copy(0, torch.arange(4, device="cuda"), square(4, 8)),
    "positions": lambda: torch.arange(8, device="cuda") // 2,
    "a mask": lambda: gradient(lambda x: x.masked_fill(x > 0, float("-inf")), 8, 8),
    "images in texts": lambda: gradient(lambda x: x.masked_scatter(x > 0, square(64)), 8, 8),
    "largest of each row": lambda: gradient(lambda x: x.max(1).values + x.min(1).values + x.median(1).values, 8, 8),
    "products": lambda: gradient(lambda x: x.prod(1) + x.norm(dim=1) + x.nansum(1), 8, 8),
    "repeats": lambda: torch.repeat_interleave(square(4), torch.arange(4, device="cuda"), output_size=6),
    "logarithms of sums": lambda: square(8, 8).logcumsumexp(1),
    "paddings": lambda: gradient(
        lambda x: F.pad(F.pad(x, (1, 1, 1, 1), "replicate"), (1, 1, 1, 1), "reflect"), 2, 3, 8, 8
    ),
    "volumes": lambda: gradient(
        lambda x: F.interpolate(F.adaptive_avg_pool3d(x, 4), scale_factor=2, mode="trilinear"), 2, 3, 8, 8, 8
    ),
    "smaller images": lambda: gradient(lambda x: F.interpolate(x, 4, mode="bilinear", antialias=True), 2, 3, 8, 8),
    "activations": lambda: gradient(lambda x: F.celu(F.leaky_relu(F.elu_(x * 2))), 8, 8),
    "losses": lambda: gradient(lambda x: F.huber_loss(x, square(8, 8)) + F.soft_margin_loss(x, square(8, 8)), 8, 8),
    "the diagonal of a matrix": lambda: gradient(torch.diag, 8, 8),
    "an encoder": lambda: nn.TransformerEncoderLayer(64, 8, batch_first=True).cuda().eval()(square(2, 8, 64)),
    "attention in halves": flash,
    "images with cuDNN": lambda: torch.ops.aten.cudnn_grid_sampler_backward(
        square(2, 3, 8, 8),
        square(2, 4, 4, 2),
        torch.ops.aten.cudnn_grid_sampler(square(2, 3, 8, 8), square(2, 4, 4, 2)),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_operators_of_training_programs_are_known(name: str, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        KNOWN[name]()
    assert not run.unknown_operators


def test_collectives_are_known(tmp_path: Path) -> None:
    """NCCL allocates its memory itself."""
    with dry_run(path=tmp_path / "dry.vtrace", world_size=4) as run:
        sharded()
    assert not run.unknown_operators

"""Flex attention in dry runs."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")
compiled: Callable[..., Any] = torch.compile(flex_attention)


def heads(device: str, count: int = 4) -> Any:
    """As projections of tokens make them, whose heads lie side by side."""
    return torch.ones(2, 128, count, 32, device=device, requires_grad=True).transpose(1, 2)


@pytest.mark.parametrize("attend", [flex_attention, compiled], ids=["plain", "compiled"])
def test_results_have_the_layout_of_the_queries(attend: Callable[..., Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        mask = create_block_mask(lambda _b, _h, i, j: i >= j, None, None, 128, 128, device="cuda")
        query, key, value = (heads("cuda") for _ in range(3))
        before = torch.cuda.memory_allocated()
        found = attend(query, key, value, block_mask=mask)
        assert (found.shape, found.stride(), found.dtype) == (query.shape, query.stride(), query.dtype)
        assert torch.cuda.memory_allocated() - before == found.nbytes + 2 * (2 * 4 * 128 * 4)
        found.sum().backward()


def test_groups_sums_and_precision(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        query, key, value = heads("cuda"), heads("cuda", 2), heads("cuda", 2)
        with torch.autocast("cuda", torch.bfloat16):
            found, sums = flex_attention(query, key, value, enable_gqa=True, return_lse=True)
        assert (found.dtype, sums.dtype, sums.shape) == (torch.bfloat16, torch.float32, (2, 4, 128))
        found.float().sum().backward()


def test_a_bias_has_a_gradient(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        bias = torch.randn(4, 128, 128, device="cuda", requires_grad=True)
        query, key, value = (heads("cuda") for _ in range(3))
        found = flex_attention(query, key, value, score_mod=lambda s, _b, h, i, j: s + bias[h, i, j])
        found.sum().backward()
        assert bias.grad is not None
        assert bias.grad.shape == bias.shape

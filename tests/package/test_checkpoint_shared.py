"""Blocks with equal parameters share a compiled forward: they compute what they should even if they differ in something else."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from vram.planning._compiled import Compiler

pytestmark = pytest.mark.filterwarnings("ignore")


class Numbered(nn.Linear):
    """Layers of a stochastic depth have such numbers, each another one."""

    def __init__(self, number: int) -> None:
        super().__init__(8, 8)
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.number


def results(blocks: list[Any], inputs: list[Any]) -> list[Any]:
    found = []
    for block, given in zip(blocks, inputs, strict=True):
        block.zero_grad()
        x = given.clone().requires_grad_()
        result = block(x)
        result.sin().sum().backward()
        found += [result, x.grad, *(parameter.grad.clone() for parameter in block.parameters())]
    return found


@pytest.mark.parametrize(
    ("blocks", "shapes", "most"),
    [
        ([Numbered(number) for number in range(12)], [(2, 8)] * 12, 12),
        ([Numbered(1) for _ in range(12)], [(2, 8)] * 12, 1),
        ([Numbered(1) for _ in range(3)], [(2, 8), (5, 8), (2, 3, 8)], 3),
    ],
    ids=["numbers", "equal", "shapes"],
)
def test_blocks_of_one_kind_that_differ_are_all_compiled(
    blocks: list[Any], shapes: list[tuple[int, ...]], most: int
) -> None:
    """Also if they are more than the variants that PyTorch keeps of one function."""
    inputs, graphs = [torch.randn(shape, dtype=torch.float64) for shape in shapes], list[Any]()
    blocks = [block.double() for block in blocks]
    expected = results(blocks, inputs)

    def backend(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    compiler = Compiler(backend)
    for block in blocks:
        block.forward = compiler.forward(block, 0.5)
    torch.testing.assert_close(results(blocks, inputs), expected)
    assert len(graphs) == most
    torch.testing.assert_close(results(blocks, inputs), expected)
    assert len(graphs) == most

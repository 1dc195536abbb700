"""vram.micro_batches and buffers that are unlike others: they are left, or put back, as they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import vram

pytestmark = pytest.mark.usefixtures("quick_collections")


def out_of_memory_in_backward(part: torch.Tensor) -> None:
    if len(part) > 4 and torch.is_grad_enabled():
        raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(1).expand(3),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.eye(3).to_sparse_csr(),
    ],
)
def test_buffers_of_every_kind_are_left_as_they_are(make: Callable[[], torch.Tensor]) -> None:
    model, batch = nn.Linear(3, 2), torch.randn(6, 3)
    model.register_buffer("kept", make())
    before = model.get_buffer("kept")

    def step(part: torch.Tensor) -> torch.Tensor:
        out_of_memory_in_backward(part)
        return model(part).square().mean()  # type: ignore[no-any-return]

    assert vram.micro_batches(batch, step, model=model).count == 2
    assert model.get_buffer("kept") is before


def test_a_buffer_that_can_not_be_put_back_does_not_keep_others_from_it() -> None:
    model, moves = nn.Linear(3, 2), [False]
    model.register_buffer("large", torch.zeros(1 << 19))  # too large to be saved before it has ever moved
    model.register_buffer("small", torch.zeros(1))

    def step(part: torch.Tensor) -> torch.Tensor:
        if moves[0]:
            for buffer in model.buffers():
                buffer.add_(1)
            raise torch.OutOfMemoryError("CUDA out of memory")
        return model(part).square().mean()  # type: ignore[no-any-return]

    vram.micro_batches(torch.randn(6, 3), step, model=model)
    moves[0] = True
    with pytest.raises(vram.VramError, match=r"the buffer large .* was not saved"):
        vram.micro_batches(torch.randn(6, 3), step, model=model)
    assert model.get_buffer("small").tolist() == [0.0]

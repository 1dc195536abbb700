"""vram.retry_on_oom with a batch: the results of parts that are joined, and those that are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import vram

pytestmark = pytest.mark.usefixtures("quick_collections")


def cut_of(function: Any, batch: torch.Tensor, largest: int = 4, **options: Any) -> Any:
    """What the function gives for a batch that is too large for it."""

    def limited(batch: torch.Tensor) -> Any:
        if len(batch) > largest:
            raise torch.OutOfMemoryError(f"CUDA out of memory. {len(batch)} are too many")
        return function(batch)

    limited = vram.retry_on_oom(**options)(limited)

    return limited(batch)


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: float(batch.mean()),
        lambda batch: {"loss": batch.mean(), "correct": int(batch.sum())},
        len,
        lambda batch: torch.bincount(batch.long(), minlength=2),
        lambda batch: torch.bincount(batch.long(), minlength=4),  # as many classes as samples in a part
        lambda batch: batch - batch.mean(),
        lambda batch: batch.argsort(),
        lambda batch: batch.sort().values,
        lambda batch: [float(batch.sum())] * len(batch),
        lambda batch: batch.mean(0, keepdim=True),
        lambda batch: batch[batch > 0],
    ],
)
def test_results_that_do_not_belong_to_samples_are_refused(function: Any) -> None:
    batch = torch.tensor([1.0, 1, 0, 1, 0, 0, 0, 0])
    with pytest.raises(vram.VramError, match="join="):
        cut_of(function, batch)
    assert cut_of(function, batch, join=lambda parts: len(parts)) == 2


def test_results_of_one_sample_at_a_time_are_joined_by_hand_alone() -> None:
    batch = torch.arange(4.0)
    with pytest.raises(vram.VramError, match="only one sample at a time fits"):
        cut_of(lambda part: part * 2, batch, largest=1)
    assert cut_of(lambda part: part * 2, batch, largest=1, join=torch.cat).tolist() == [0, 2, 4, 6]


def test_what_is_drawn_does_not_hide_that_results_belong_to_samples() -> None:
    found = cut_of(lambda batch: torch.nn.functional.dropout(batch + 1, 0.5), torch.zeros(8))
    assert found.shape == (8,)
    assert set(found.tolist()) <= {0.0, 2.0}
    with pytest.raises(vram.VramError, match="join="):
        cut_of(lambda batch: torch.nn.functional.dropout(batch - batch.mean(), 0.5), torch.arange(8.0))


def test_backward_in_parts_is_refused_before_it_adds_anything() -> None:
    weight = torch.nn.Parameter(torch.ones(1))

    def train(batch: torch.Tensor) -> torch.Tensor:
        (batch * weight).mean().backward()  # type: ignore[no-untyped-call]
        return batch

    with pytest.raises(vram.VramError, match=r"Use vram\.micro_batches"):
        cut_of(train, torch.ones(8))
    assert weight.grad is None

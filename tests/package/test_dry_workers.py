"""Data loaders with worker processes, whose batches may be fake tensors."""

# mypy: allow-untyped-calls

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from vram.dry import dry_run
from vram.dry._values import DryRunError

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(60)]
LARGE = 70_000  # so many numbers are fake on the CPU, too


class Samples(Dataset[Any]):
    """The first part of a sample was made before the workers began, the second one is made by them, and the third one has values."""

    def __init__(self) -> None:
        self.before = torch.randint(0, 9, (8, LARGE))

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> Any:
        return self.before[number], torch.randn(2, LARGE), torch.tensor(number)


def stacked(samples: Any) -> Any:
    return [torch.stack(part) for part in zip(*samples, strict=True)]


@pytest.mark.parametrize("collate", [None, stacked], ids=["PyTorch's", "own"])
@pytest.mark.parametrize("is_pinned", [False, True], ids=["", "pinned"])
def test_workers_send_batches_without_values(collate: Any, is_pinned: bool, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        loader = DataLoader(Samples(), 4, num_workers=1, collate_fn=collate, pin_memory=is_pinned)
        seen = 0
        for before, made, number in loader:
            assert (before.shape, before.dtype) == ((4, LARGE), torch.int64)
            assert (made.shape, made.dtype) == ((4, 2, LARGE), torch.float32)
            seen += int(number.sum())
            assert made.cuda().is_cuda
            before.cuda()
    assert seen == sum(range(8))
    assert run.peak.requested_bytes == 4 * LARGE * 8


def test_strides_and_gradients_are_sent(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        sent = torch.empty(400, 300).t()[1:].requires_grad_()
        found = pickle.loads(ForkingPickler.dumps(sent))
        assert (found.shape, found.stride(), found.requires_grad) == (sent.shape, sent.stride(), True)
        data = bytes(ForkingPickler.dumps(sent))
    outside = pickle.loads(data)  # as in a process that was not forked
    assert (outside.shape, outside.stride()) == ((299, 400), (1, 300))
    assert torch.Tensor.__name__ == type(outside).__name__


def test_tensors_on_the_gpu_are_refused(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), pytest.raises(DryRunError, match="sent to another process"):
        ForkingPickler.dumps(torch.ones(3, device="cuda"))


def test_queues_are_as_before_after_a_dry_run(tmp_path: Path) -> None:
    before = dict(ForkingPickler._extra_reducers)  # type: ignore[attr-defined]
    with dry_run(path=tmp_path / "dry.vtrace"):
        assert dict(ForkingPickler._extra_reducers) != before  # type: ignore[attr-defined]
    assert dict(ForkingPickler._extra_reducers) == before  # type: ignore[attr-defined]

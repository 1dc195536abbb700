"""vram.retry_on_oom with a batch: the results of parts that are joined, and those that are refused."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest
import torch

import vram
from vram._frameworks._torch_training import TorchTraining

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


def test_a_count_that_was_nothing_at_first_is_not_kept() -> None:
    """As many in both parts the second time: that looks as if it were the same for the whole batch."""

    @vram.retry_on_oom
    def zeros(batch: torch.Tensor) -> dict[str, Any]:
        if len(batch) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return {"twice": batch * 2, "zeros": int((batch == 0).sum())}

    assert zeros(torch.ones(8))["zeros"] == 0
    assert zeros(torch.ones(8))["zeros"] == 0
    with pytest.raises(vram.VramError, match="join="):
        zeros(torch.tensor([0.0, 1, 1, 1, 0, 1, 1, 1]))


@pytest.mark.parametrize("samples", [6, 8, 10, 12])
def test_what_is_the_same_in_all_parts_is_kept_whatever_its_size(samples: int) -> None:
    found = cut_of(
        lambda batch: {"out": batch + 1, "names": ["a", "b", "c"], "table": torch.ones(3, 2)},
        torch.arange(float(samples)),
        largest=3,
    )
    assert found["out"].tolist() == [1.0 + sample for sample in range(samples)]
    assert found["names"] == ["a", "b", "c"]
    assert found["table"].shape == (3, 2)


def test_results_that_are_as_long_as_their_part_are_refused() -> None:
    def padded(batch: torch.Tensor) -> torch.Tensor:
        return batch[:, None].expand(-1, int(batch.max()) + 1)

    with pytest.raises(vram.VramError, match=r"other extents in each part \(\(2, 2\), \(2, 4\)\).*join="):
        cut_of(padded, torch.arange(8.0))


def test_a_function_that_changes_its_batch_is_not_called_again_with_it() -> None:
    def normalised(batch: torch.Tensor) -> torch.Tensor:
        batch.sub_(1)
        if len(batch) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return batch * 2

    for join in (torch.cat, None):
        with pytest.raises(vram.VramError, match="changes batch in place"):
            vram.retry_on_oom(join=join)(normalised)(torch.zeros(8))


def test_what_was_shown_holds_for_what_the_function_was_given_then() -> None:
    norm = torch.nn.BatchNorm1d(1, track_running_stats=False).eval()
    model = torch.nn.BatchNorm1d(1).eval()

    @vram.retry_on_oom
    def run(batch: torch.Tensor, how: str, layer: torch.nn.Module) -> torch.Tensor:
        if len(batch) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return layer(batch - batch.mean() if how == "centred" else batch)  # type: ignore[no-any-return]

    batch = torch.arange(8.0)[:, None]
    assert torch.allclose(run(batch, "plain", model), model(batch))
    with pytest.raises(vram.VramError, match="join="):
        run(batch, "centred", model)
    with pytest.raises(vram.VramError, match="join="):
        run(batch, "plain", norm)
    with pytest.raises(vram.VramError, match="join="):
        run(batch, "plain", model.train())


def test_threads_do_not_hear_one_anothers_backward_passes() -> None:
    weight, cutting, trained = torch.nn.Parameter(torch.ones(1)), threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def train() -> None:
        assert cutting.wait(60)
        try:
            (2 * weight).sum().backward()  # type: ignore[no-untyped-call]
        except BaseException as error:
            errors.append(error)
        trained.set()

    def evaluate(batch: torch.Tensor) -> torch.Tensor:
        cutting.set()
        assert trained.wait(60)
        return batch + 1

    thread = threading.Thread(target=train)
    thread.start()
    assert cut_of(evaluate, torch.zeros(8)).tolist() == [1.0] * 8
    thread.join(60)
    assert errors == []
    assert weight.grad is not None
    assert weight.grad.tolist() == [2.0]


def test_nothing_listens_for_ever_whoever_ends_first() -> None:
    before, heard = torch.autograd.backward, list[Any]()
    first, second = ExitStack(), ExitStack()  # of two threads, say
    first.enter_context(TorchTraining(torch).accumulations(heard.append))
    second.enter_context(TorchTraining(torch).accumulations(heard.append))
    first.close()
    second.close()
    assert torch.autograd.backward is before
    torch.ones(1, requires_grad=True).sum().backward()  # type: ignore[no-untyped-call]
    assert heard == []

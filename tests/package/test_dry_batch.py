"""find_batch_size(dry=True) against a bisection over single dry runs, for models, optimizers and sizes of GPUs drawn at random."""

# mypy: allow-untyped-calls

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

import vram
from vram.dry import _least
from vram.dry._batch import BatchSearch
from vram.recover._find import _reason_of_dry_runs
from vram.recover._fit import Trial

pytestmark = pytest.mark.filterwarnings("ignore")

_MIB = 1 << 20
Train = Callable[[int], None]


def layers(width: int, depth: int) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)))


def convolutions(width: int, depth: int) -> nn.Module:
    first = nn.Conv2d(3, width, 3, padding=1)
    return nn.Sequential(
        first, *(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(depth))
    )


class Contrastive(nn.Module):
    """Compares each sample with each: memory grows with the square of the batch."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.body = layers(width, depth)

    def forward(self, x: Any) -> Any:
        y = self.body(x)
        return torch.log_softmax(y @ y.T, -1).exp()


class Padded(nn.Module):
    """Pads the batch to a multiple of 64."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.body = layers(width, depth)

    def forward(self, x: Any) -> Any:
        return self.body(nn.functional.pad(x, (0, 0, 0, -len(x) % 64)))


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, 0.1),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters),
    "AdamW, one parameter at a time": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
}


def program(choose: random.Random) -> tuple[str, Train]:
    kind = choose.choice([layers, layers, convolutions, Contrastive, Padded])
    is_image = kind is convolutions
    width = choose.choice([16, 24, 40]) if is_image else choose.choice([64, 300, 1024, 2048])
    depth, name = choose.randint(1, 4), choose.choice(list(OPTIMIZERS))
    shape = (3, *[choose.choice([32, 56])] * 2) if is_image else (width,)

    def train(batch: int) -> None:
        model = kind(width, depth).cuda()
        optimizer = OPTIMIZERS[name](model.parameters())
        while True:
            loss = model(torch.empty(batch, *shape, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return f"{kind.__name__} {width} x {depth}, {name}", train


# size: the bisection is a part of the case
@pytest.mark.parametrize("seed", range(8))
def test_the_result_is_the_largest_that_fits(seed: int) -> None:
    choose = random.Random(seed)
    name, train = program(choose)
    smallest = vram.predict(train, batch=1).fits.needed_bytes
    gpu = f"{int(smallest * 1.16) + choose.choice([20, 200, 1500]) * _MIB}B"
    multiple = choose.choice([1, 1, 4, 8])

    @cache
    def fits(batch: int) -> bool:
        return bool(vram.predict(train, gpu, batch=batch).fits)

    found = vram.find_batch_size(train, dry=True, gpu=gpu, multiple_of=multiple)
    about = f"{name}, {gpu}, multiples of {multiple}: {[(t.batch_size, t.fits) for t in found.trials]}"
    assert fits(found.batch_size), about
    low, high = found.batch_size, 2 * found.batch_size + multiple
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    largest = low // multiple * multiple or low
    assert 0.98 * largest <= found.batch_size <= largest, f"{about}; the largest is {largest}"
    assert len(found.trials) <= 20, about
    with vram.dry_run(gpu, raise_oom=True) as run:  # a promise: it runs
        from vram.dry._repeat import stopped_after

        with stopped_after(run, 2):
            train(found.batch_size)
    assert run.steps == 2


def test_a_size_that_is_two_percent_larger_is_run_before_the_end() -> None:
    """Not every size needs more than a smaller one."""
    search = BatchSearch(print, "24GiB", None)
    search.trials = [Trial(196, fits=True), Trial(197, fits=False)]
    assert search.next_size(1, None) == 200
    assert search.next_size(1, 199) is None
    search.trials.append(Trial(200, fits=False))
    assert search.next_size(1, None) is None
    search.trials[-1] = Trial(200, fits=True, growing_bytes=200)
    search.trials[0] = Trial(196, fits=True, growing_bytes=100)
    assert (search.next_size(1, None) or 0) > 200


@pytest.mark.parametrize(
    ("needed_bytes", "start"),
    [
        (lambda batch: 5e9 + 70_000 * batch + 700 * batch**2, 1),  # a line to the first that fails is far too steep
        (lambda batch: 0.8e9 + 19e9 * -(-batch // 100), 1000),  # padded
        (lambda batch: 20e9 + 1000 * batch + 8e9 * (batch > 777), 8),
    ],
)
def test_a_line_that_is_too_steep_takes_few_runs(needed_bytes: Callable[[int], float], start: int) -> None:
    class Search(BatchSearch):
        def run(self, batch_size: int) -> Trial:
            needed = int(needed_bytes(batch_size))
            self._error = 0.001
            fits = bool(self._fits(needed))
            self.trials.append(Trial(batch_size, fits=fits, peak_bytes=needed, growing_bytes=needed))
            return self.trials[-1]

    search = Search(print, "24GiB", None)
    search.run(start)
    while not search.best:
        start //= 8
        search.run(start)
    while (size := search.next_size(1, None)) is not None and len(search.trials) < 32:
        search.run(size)
    assert search.best
    found = search.best.batch_size
    assert search._fits(int(needed_bytes(found)))
    assert not search._fits(int(needed_bytes(int(found * 1.011) + 1)))
    assert len(search.trials) <= 17, [(trial.batch_size, trial.fits) for trial in search.trials]


def test_the_same_memory_can_fit_and_not_fit() -> None:
    """The error of a prediction is larger where a size uses an operator without rules; then no line is through both."""
    search = BatchSearch(print, "24GiB", None)
    search.trials = [Trial(100, fits=True, peak_bytes=20 << 30), Trial(200, fits=False, peak_bytes=20 << 30)]
    assert search.next_size(1, None) == 150


def test_memory_that_does_not_grow_is_no_error_if_a_batch_is_the_largest_allowed() -> None:
    search = BatchSearch(print, "24GiB", None)
    search.trials = [Trial(batch, fits=True, peak_bytes=1 << 30, growing_bytes=1 << 20) for batch in (8, 16, 128)]
    assert search.next_size(8, 1001) == 1000
    assert search.next_size(8, 5000) == 1024
    with pytest.raises(vram.VramError, match="state max_batch_size"):
        search.next_size(8, None)


def test_the_reason_names_a_larger_size() -> None:
    """Of sizes that do not fit, some may be smaller than the result."""
    trials = [Trial(197, fits=False, peak_bytes=2 << 30), Trial(200, fits=True, peak_bytes=1 << 30)]
    assert "201" in _reason_of_dry_runs([*trials, Trial(201, fits=False, peak_bytes=3 << 30)], None, None)
    assert "no more than 200" in _reason_of_dry_runs(trials, None, 200)


def test_an_optimizer_that_needs_more_than_small_batches_do_is_no_end() -> None:
    """The peak is the optimizer's, and the same, until the batch is large."""

    def train(batch: int) -> None:
        model = nn.Linear(4096, 4096).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        while True:
            model(torch.empty(batch, 4096, device="cuda")).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    few, more = (vram.predict(train, batch=batch).peak.requested_bytes for batch in (8, 16))
    assert few == more
    found = vram.find_batch_size(train, dry=True, gpu="3GiB")
    assert found.batch_size > 1000
    assert not vram.predict(train, "3GiB", batch=int(found.batch_size * 1.02) + 8).fits


def test_a_limit_of_the_program_is_an_end() -> None:
    def train(batch: int) -> None:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((256 << 20) / total)
        model = nn.Linear(256, 256).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        while True:
            model(torch.empty(batch, 256, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    found = vram.find_batch_size(train, dry=True, gpu="24GiB")
    assert found.peak_bytes < found.budget_bytes < 2 << 30, "the limit, and the context outside of it"
    assert "margin" in found.reason
    assert not vram.predict(train, "24GiB", batch=int(found.batch_size * 1.02) + 8).fits
    with pytest.raises(torch.OutOfMemoryError):
        vram.predict(train, "24GiB", batch=2 * found.batch_size)
    with pytest.raises(torch.OutOfMemoryError, match=r"not even a batch of 1 fits: it runs out of memory at the limit"):
        vram.find_batch_size(lambda batch: train(batch << 20), dry=True, gpu="24GiB")


def test_a_result_is_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays near the budget decide; the least memory may be above it."""
    amounts: list[int] = []

    def shares_completed(_trace: Any, _allocator: str, capacities: list[int], _device: int | None) -> list[float]:
        amounts.extend(capacities)
        return [1.0] * len(capacities)

    def train(batch: int) -> None:
        nn.Linear(256, 256).cuda()(torch.empty(batch << 10, 256, device="cuda"))

    needed = vram.predict(train, batch=8).fits.needed_bytes
    monkeypatch.setattr(_least, "shares_completed", shares_completed)
    for gpu, budget_bytes in (("24GiB", needed - (1 << 20)), (f"{int(needed / 0.98) - (1 << 20)}B", None)):
        search = BatchSearch(train, gpu, budget_bytes)
        trial = search.run(8)
        assert trial.fits
        assert (trial.peak_bytes or 0) <= search.budget_bytes
        assert len({*amounts}) == len(amounts) - 1, "the amounts near one budget, each once, but that of the budget"
        amounts.clear()


def test_a_first_request_that_is_refused_has_no_holders() -> None:
    def train(batch: int) -> None:
        torch.cuda.set_per_process_memory_fraction(0.0)
        torch.empty(batch << 20, device="cuda")

    with pytest.raises(torch.OutOfMemoryError, match=r"not even a batch of 1 fits: it runs out .* sets$"):
        vram.find_batch_size(train, dry=True, gpu="24GiB")


def test_a_program_that_ends_out_of_memory_before_its_first_request_has_no_holders() -> None:
    def train(batch: int) -> None:
        raise torch.OutOfMemoryError(f"{batch} is too large")

    with pytest.raises(torch.OutOfMemoryError, match=r"not even a batch of 1 fits: it runs out .* sets$"):
        vram.find_batch_size(train, dry=True, gpu="24GiB")


def test_the_result_is_a_multiple_if_a_multiple_fits() -> None:
    def train(batch: int) -> None:
        model = nn.Linear(256, 256).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        while True:
            model(torch.empty(batch << 10, 256, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    needed = vram.predict(train, batch=23).fits.needed_bytes
    found = vram.find_batch_size(train, dry=True, gpu=f"{int(needed * 1.08)}B", start=100)
    assert found.batch_size % 8 == 0
    assert 16 <= found.batch_size <= 24


def test_memory_that_later_steps_need_counts() -> None:
    """The allocator's cached memory can be divided worse in the third step than in the two before."""

    def train(batch: int) -> None:
        model = nn.Linear(256, 256).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            x = torch.empty(batch << 10, 256, device="cuda")
            more = x.clone() if step == 2 else None
            model(x).square().mean().backward()
            del more
            optimizer.step()
            optimizer.zero_grad()

    found = vram.find_batch_size(train, dry=True, gpu="2GiB")
    assert vram.predict(train, "2GiB", steps=3, batch=found.batch_size).fits
    assert vram.predict(train, "2GiB", steps=2, batch=found.batch_size + 8).fits, "two steps would allow more"

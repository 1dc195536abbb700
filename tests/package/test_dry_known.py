"""Values on the GPU that a dry run knows: numbers of the host, what is calculated with them, and checks for NaN."""

# size: one program for each way in which a value becomes known, or is not known anymore
# mypy: allow-untyped-calls

from __future__ import annotations

import json
import logging
import math
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry import dry_run
from vram.dry._values import DryRunError, Unknown

pytestmark = pytest.mark.filterwarnings("ignore")
F = nn.functional


def overwritten(device: str) -> Any:
    x = torch.randn(6, device=device)
    x.zero_()
    x[1:3] += 2
    view = x.view(2, 3)
    view[1].fill_(5)
    return x.tolist(), view.sum().item()


def weighted(start: Any, weight: Any) -> Any:
    torch._foreach_lerp_([start], [start + 4], weight)
    return start.shape


def gradient_of_filler(device: str) -> torch.Size:
    value = torch.zeros((), device=device, requires_grad=True)
    torch.ones(8, 5, device=device).index_fill(0, torch.tensor([2, 2, 0], device=device), value).sum().backward()
    assert value.grad is not None
    return value.grad.shape


# What programs do with values that do not depend on a model, and read.
PROGRAMS: dict[str, Callable[[str], Any]] = {
    "a number": lambda d: (int(torch.tensor(7, device=d)), bool(torch.tensor(2.5, device=d) > 2)),
    "the length of a loader": lambda d: 1 if torch.tensor(12, device=d).sum() == 0 else 2,
    "a mask of tokens": lambda d: [torch.ones(4, 9, dtype=torch.long).to(d).all().item()],
    "lengths": lambda d: torch.tensor([3, 5, 2]).to(d).max().item(),
    "a counter": lambda d: (torch.zeros((), device=d) + 3).mul_(2).item(),
    "a buffer that is overwritten": overwritten,
    "an array": lambda d: torch.arange(5, device=d).mul(3).cpu().numpy().tolist(),
    "a list": lambda d: torch.tensor([[1, 2], [3, 4]], device=d).flip(1).tolist(),
    "tokens that count": lambda d: (torch.tensor([[1, -100, 3]], device=d) != -100).sum().item(),
    "equal()": lambda d: torch.equal(torch.ones(3, device=d), torch.ones_like(torch.randn(3, device=d))),
    "positions of a mask": lambda d: torch.randn(4, 2, device=d)[torch.tensor([1, 0, 1, 1], device=d) > 0].shape,
    "repeats": lambda d: torch.repeat_interleave(torch.randn(3, device=d), torch.tensor([2, 0, 1], device=d)).shape,
    "other values": lambda d: torch.tensor([2, 2, 7], device=d).unique().tolist(),
    "other rows": lambda d: torch.tensor([[1, 2], [1, 2], [0, 4]], device=d).unique(dim=0).tolist(),
    "other columns, and how many": lambda d: [
        each.tolist()
        for each in torch.tensor([[1, 1, 0], [2, 2, 4]], device=d).unique(
            True, return_inverse=True, return_counts=True, dim=1
        )
    ],
    "runs of rows": lambda d: torch.tensor([[1, 2], [1, 2], [0, 4]], device=d).unique_consecutive(dim=0).shape,
    "a window, made again": lambda d: [torch.hann_window(8, device=d) for _ in range(2)][1].tolist(),
    "a gradient of what is filled": lambda d: gradient_of_filler(d),
    "positions": lambda d: torch.tensor([[0, 2, 7], [1, 0, 0]], device=d).nonzero().tolist(),
    "how often": lambda d: torch.bincount(torch.tensor([0, 2, 2], device=d), minlength=2).tolist(),
    "a weight of lists of tensors": lambda d: weighted(torch.zeros(3, device=d), torch.tensor(0.25, device=d)),
    "a module that moved": lambda d: nn.BatchNorm1d(4).to(d).state_dict()["num_batches_tracked"].add_(1).item(),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_what_is_known_is_as_for_real(program: Callable[[str], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        found = program("cuda")
    assert found == program("cpu")


def backward_with_checks(x: Any) -> None:
    with torch.autograd.detect_anomaly():
        (x * 2).sum().backward()


# Checks for NaN and infinity: numbers that a dry run does not compute are finite.
CHECKS: dict[str, Callable[[Any], Any]] = {
    "isnan()": lambda x: torch.isnan(x.mean()) or torch.isinf(x.mean()),
    "any()": lambda x: torch.isnan(x).any() | (torch.isinf(x)).any(),
    "isfinite()": lambda x: not torch.isfinite(x).all(),
    "not isfinite()": lambda x: (~torch.isfinite(x)).any().item(),
    "logical": lambda x: torch.logical_or(x.isnan(), x.isinf()).any(dim=0).any(),
    "math": lambda x: not math.isfinite(x.mean().item()),
    "clip_grad_norm_()": lambda x: nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True) is None,
    "detect_anomaly()": lambda x: backward_with_checks(x),
    "infinity": lambda x: x.sum().item() == math.inf or x.sum().item() >= float("inf"),
}


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_numbers_count_as_finite(check: Callable[[Any], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.randn(1500, 1500, device="cuda", requires_grad=True)
        x.grad = torch.randn_like(x)
        assert not check(x)


LABELS = np.arange(600 * 600).reshape(600, 600) % 5  # more than what is known one by one
# Whether whole numbers are in a range that follows from what they are: labels of the host, positions, draws.
RANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "labels of classes": (lambda labels: labels.min() >= 0 and labels.max() < 5, True),
    "all labels": (lambda labels: ((labels >= 0) & (labels <= 4)).all(), True),
    "labels of a class that there is not": (lambda labels: (labels == 255).any(), False),
    "another class": (lambda labels: (labels != -1).all().item(), True),
    "labels that are too large": (lambda labels: (labels > 7.5).any(), False),
    "positions": (lambda labels: torch.randn(labels.shape, device="cuda").argmax(1).max() < labels.shape[1], True),
    "draws": (lambda _labels: torch.randint(0, 3, (600, 600), device="cuda").max() < 3, True),
}


@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_whole_numbers_can_be_checked(name: str, tmp_path: Path) -> None:
    check, expected = RANGES[name]
    with dry_run(path=tmp_path / "dry.vtrace"):
        labels = torch.from_numpy(LABELS).to("cuda")
        assert bool(check(labels)) is expected


@pytest.mark.parametrize(
    "check",
    [
        lambda labels: (labels == 4).any(),
        lambda labels: labels.max() > 3,
        lambda labels: (labels - 1 >= 0).all(),
        lambda _labels: (torch.randint(-3, 3, (600, 600), device="cuda") >= 0).all(),
        lambda labels: (labels.neg() <= 5).all(),
    ],
)
def test_what_depends_on_the_numbers_is_not_known(check: Callable[[Any], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        labels = torch.from_numpy(LABELS).to("cuda")
        with pytest.raises(DryRunError):
            bool(check(labels))


def test_a_sequence_that_has_ended_ends_whatever_its_tokens_are(tmp_path: Path) -> None:
    """As generation ends at the greatest length."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        goes_on = torch.ones(4, dtype=torch.long, device="cuda")
        tokens = torch.randn(4, 9, device="cuda").argmax(-1)
        goes_on = goes_on & ~(torch.zeros(4, dtype=torch.bool, device="cuda") | (tokens == 2))
        with pytest.raises(DryRunError):
            bool(goes_on.max() == 0)
        is_longest = torch.full((4,), True, device="cuda")
        goes_on = goes_on & ~(is_longest | (tokens == 2))
        assert goes_on.max() == 0
        assert (tokens * torch.zeros(4, dtype=torch.long, device="cuda")).tolist() == [0, 0, 0, 0]


# What depends on values that are not known, although something was known before.
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "a sum with something unknown": lambda x: torch.ones(8, device="cuda").add_(x),
    "a part that is unknown": lambda x: torch.zeros(9, device="cuda").index_copy_(0, torch.arange(8, device="cuda"), x),
    "a view that is written to": lambda x: [t := torch.zeros(9, device="cuda"), t[1:].copy_(x)][0],
    "the data that is written to": lambda x: [t := torch.zeros(8, device="cuda"), t.data.copy_(x)][0],
    "random numbers": lambda _x: torch.zeros(8, device="cuda").uniform_(),
    "empty()": lambda _x: torch.empty(8, device="cuda"),
    "a list of tensors": lambda x: [t := torch.zeros(8, device="cuda"), torch._foreach_add_([t], [x])][0],
    "other memory": lambda x: [t := torch.zeros(8, device="cuda"), t.set_(x)][0],
    "a copy of a copy": lambda x: [t := torch.zeros(8, device="cuda"), t.copy_(x), t.clone().float()][2],
}


@pytest.mark.parametrize("program", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_written_to_is_not_known_anymore(program: Callable[[Any], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        found = program(torch.randn(8, device="cuda"))
        with pytest.raises(DryRunError):
            bool(found.sum() > 0)


def test_random_programs_know_what_is_true(tmp_path: Path) -> None:
    """Views, writes and results in any order: what is read is what a real program reads, or an error."""

    def run(seed: int, device: str, *, has_unknown: bool) -> list[Any]:
        choose = random.Random(seed)
        tensors = [torch.arange(6.0).to(device), torch.ones(2, 3, device=device)]
        if has_unknown:
            tensors.append(torch.randn(6, device=device) if device == "cuda" else torch.full((6,), math.nan))
        for _ in range(12):
            one, other = choose.choice(tensors), choose.choice(tensors)
            kind = choose.randrange(6)
            if kind == 0:
                tensors.append(one.reshape(-1)[choose.randrange(max(1, one.numel() - 3)) :])
            elif kind == 1:
                one.reshape(-1)[:2].copy_(other.reshape(-1)[:2].clone())
            elif kind == 2:
                one.mul_(2)
            elif kind == 3:
                tensors.append(one.reshape(-1)[:3] + other.reshape(-1)[:3])
            elif kind == 4:
                one.fill_(choose.randrange(5))
            else:
                tensors.append(one.detach().clone())
        found: list[Any] = []
        for tensor in tensors:
            try:
                found.append(tensor.cpu().tolist())
            except DryRunError:
                found.append(None)
        return found

    for seed in range(60):
        expected = run(seed, "cpu", has_unknown=seed % 2 == 0)
        with dry_run(path=tmp_path / "dry.vtrace"):
            found = run(seed, "cuda", has_unknown=seed % 2 == 0)
        for known, real in zip(found, expected, strict=True):
            assert known is None or known == real
        assert seed % 2 == 0 or None not in found


def test_a_statement_of_the_user_comes_first(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        x = torch.tensor(7, device="cuda")
        with run.assume(3):
            assert x.item() == 3
        assert x.item() == 7


def test_the_memory_is_the_same(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        x = torch.arange(1000.0, device="cuda")
        y = x * 2
        assert y.cpu().tolist()[-1] == 1998
    assert run.peak.requested_bytes == 8000


def test_an_unknown_number_names_the_line_that_read_it(tmp_path: Path) -> None:
    """The line that has to state the assumption is not always that of the comparison."""

    def program(x: Any) -> Any:
        value = x.mean().item()
        doubled = value * 2 + 1
        return doubled < 0.5

    line = f"{Path(__file__).name}:{program.__code__.co_firstlineno + 1}"
    with dry_run(path=tmp_path / "dry.vtrace"):
        with pytest.raises(DryRunError) as error:
            program(torch.randn(3, device="cuda"))
        assert f"was read from a tensor at {line}: " in str(error.value)
        assert f"assume={{'{line}': 0.5}}" in str(error.value)
    with dry_run(path=tmp_path / "dry.vtrace", assume={line: -1.0}):
        assert program(torch.randn(3, device="cuda"))


def test_a_number_is_printed_as_a_whole_one(tmp_path: Path) -> None:
    """As programs print percentages: it decides nothing."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.randn(3, 4, device="cuda")
        correct = (x.argmax(1) == torch.zeros(3, device="cuda")).sum().item()
        for accuracy in (100.0 * correct / 3, x.mean().item()):
            assert re.fullmatch(r"epoch 2: \d+ %", "epoch %d: %d %%" % (2, accuracy))  # noqa: UP031
            text = "%i"
            text %= accuracy
            assert text.isdigit()
            with pytest.raises(DryRunError, match=r"int\(\) of a value"):
                int(accuracy)
            with pytest.raises(DryRunError, match=r"int\(\) of a value"):
                int(accuracy) % 3
        record = logging.LogRecord("", logging.INFO, "", 1, "%d %%", (x.mean().item(),), None)
        assert record.getMessage()[0].isdigit()


def test_a_log_in_json(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        logged = {"loss": torch.randn(3, device="cuda").mean().item()}
        assert json.loads(json.dumps(logged, indent=2)) == json.loads(json.dumps(logged)) == {"loss": 1.0}


# What programs do with data that they make: positions, labels, tokens, edges.
DATA: dict[str, Callable[[], Any]] = {
    "an order": lambda: sorted(torch.randperm(60000).tolist()) == list(range(60000)),
    "labels": lambda: len(torch.randint(0, 10, (100_000,)).unique()) == 10,
    "edges": lambda: 0 <= int(torch.randint(0, 5000, (2, 40_000)).max()) < 5000,
    "counts": lambda: int(torch.bincount(torch.randint(10, (100_000,))).sum()) == 100_000,
    "tokens": lambda: torch.arange(1_000_000)[999_999].item() == 999_999,
}


@pytest.mark.parametrize("check", DATA.values(), ids=DATA)
def test_data_of_whole_numbers_has_values_on_the_cpu(check: Callable[[], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        assert check()


def test_a_model_of_whole_numbers_takes_no_memory_of_the_host(tmp_path: Path) -> None:
    """As quantized ones."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        for made in (torch.empty(1 << 17, dtype=torch.int32), torch.zeros(1 << 19, dtype=torch.int8)):
            assert isinstance(made, FakeTensor)
        assert isinstance(torch.randint(2, (1 << 30,)), FakeTensor)


UNFILLED: dict[str, Callable[[Any], Any]] = {
    "numpy()": lambda x: x.numpy(),
    "tolist()": lambda x: x.tolist(),
    "item()": lambda x: 1 if x.sum() > 0 else 2,
    "aten::bincount": lambda x: torch.bincount(x.flatten().long()),
}


@pytest.mark.parametrize("operator", UNFILLED)
@pytest.mark.parametrize("comes_from_gpu", [False, True])
def test_an_error_about_a_tensor_on_the_cpu_says_where_its_values_are(
    operator: str, comes_from_gpu: bool, tmp_path: Path
) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.randn(1000, 100, device="cuda").cpu() if comes_from_gpu else torch.randn(1000, 100)
        with pytest.raises(DryRunError, match=r"values of a tensor on the CPU .* the GPU, or .* NumPy") as error:
            UNFILLED[operator](x)
        assert f": {operator} reads" in str(error.value)


@pytest.mark.parametrize(
    "calculate",
    [
        lambda losses: np.average(losses),
        lambda losses: np.average([1.0, 3.0, 5.0], weights=losses) - 2,
        lambda losses: np.asarray(losses, np.float32).max(),
        lambda losses: np.float64(1) * losses[0],
        lambda losses: torch.tensor(losses).mean().item(),
        lambda losses: torch.tensor([losses], device="cuda").mean().item(),
        lambda losses: float(losses[0]),
    ],
)
def test_numbers_that_become_known_are_named_once(calculate: Callable[..., Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        losses = [torch.randn(4, device="cuda").mean().item() for _ in range(3)]
        for _ in range(2):
            assert calculate(losses) == 1
    assert ["continues with 1.0" in str(each.message) for each in warned] == [False, True]
    assert {Path(each.filename).name for each in warned} == {Path(__file__).name}


def test_an_unknown_number_that_is_no_zero(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        first, second = (torch.randn(4, device="cuda").mean().item() for _ in range(2))
        assert isinstance(first / (first - second), Unknown)
        with pytest.raises(ZeroDivisionError):
            _ = first / 0
        with pytest.raises(DryRunError, match="ceil"):
            math.ceil(first)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_inverse_spectrogram_asks_whether_its_windows_leave_gaps(device: str, tmp_path: Path) -> None:
    """A window that is not known, such as one that is trained, counts as one without."""

    def inverse(window: Any, **options: Any) -> Any:
        return torch.istft(torch.randn(2, 9, 41, dtype=torch.complex64, device=device), 16, 4, window=window, **options)

    with dry_run(path=tmp_path / "dry.vtrace"):
        for _ in range(2):
            assert inverse(torch.hann_window(16, device=device)).shape == (2, 160)
            with pytest.raises(RuntimeError, match="window overlap"):
                inverse(torch.hann_window(16, device=device), center=False)
        if device == "cuda":
            assert inverse(torch.rand(16, device=device), length=170).shape == (2, 170)


@pytest.mark.filterwarnings("ignore:sizes and whole")
def test_rows_that_differ_count_as_all(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        x = torch.randn(8, 5, device="cuda")
        for dim, rows in ((0, 8), (-1, 5)):
            found, inverse, counts = x.unique(dim=dim, return_inverse=True, return_counts=True)
            assert (found.shape, inverse.shape, counts.shape) == (x.shape, (rows,), (rows,))
            assert x.unique_consecutive(dim=dim).shape == x.shape
        with run.assume(3):
            assert x.unique(dim=1).shape == (8, 3)
        assert (x > 0).unique().shape == (2,)
    assert not run.unknown_operators


def test_known_values_are_copied_back(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as warned, dry_run(path=tmp_path / "dry.vtrace"):
        warnings.simplefilter("always")
        lengths, kept = torch.tensor([3, 1, 2], device="cuda"), torch.zeros(3, dtype=torch.int64)
        kept.copy_(lengths)
        assert kept.tolist() == [3, 1, 2]
        kept[1] = lengths.sum()
        assert kept.tolist() == [3, 6, 2]
        assert not warned
        kept.copy_(torch.randn(3, device="cuda").argsort())
        assert (kept.tolist(), len(warned)) == ([3, 6, 2], 1)

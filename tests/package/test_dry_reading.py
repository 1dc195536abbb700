"""Programs that read values of the GPU: what they get, and errors with the operator, the line and the ways out."""

# mypy: allow-untyped-calls

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vram.dry import DryRun, dry_run
from vram.dry._values import DryRunError, Unknown

HERE = "test_dry_reading.py"


@contextmanager
def dry(tmp_path: Path, **options: Any) -> Iterator[DryRun]:
    with dry_run(path=tmp_path / "dry.vtrace", **options) as run:
        yield run


def line_of(call: Callable[..., Any], after: int = 1) -> str:
    return f"{HERE}:{call.__code__.co_firstlineno + after}"


def test_a_loss_is_read_to_be_logged(tmp_path: Path) -> None:
    with dry(tmp_path), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        total = 0.0
        for _ in range(3):
            total += torch.randn(4, device="cuda").mean().item()
        mean = total / 3
        assert isinstance(mean, Unknown)
        assert f"{mean:.4f} {mean} {round(mean, 3)}" == "unknown unknown unknown"
    assert [(Path(each.filename).name, "an unknown number" in str(each.message)) for each in warned] == [(HERE, True)]


@pytest.mark.parametrize(
    "read",
    [
        float,
        lambda loss: loss.detach().cpu().numpy(),
        lambda loss: np.mean([loss.detach().cpu()]),
        lambda loss: loss.cpu().view(1, 1).numpy()[0, 0],
    ],
)
def test_a_loss_becomes_a_number_of_python_or_numpy(read: Callable[..., Any], tmp_path: Path) -> None:
    with dry(tmp_path) as run, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert read(torch.randn(4, device="cuda").mean()) == 1
        with run.assume(0.25):
            assert read(torch.randn(4, device="cuda").mean()) == 0.25
    assert "continues with 1.0" in str(warned[-1].message)


def compared(loss: Any) -> Any:
    return loss.item() < 0.5


def as_condition(loss: Any) -> Any:
    return 1 if loss > 0 else 2


def counted(loss: Any) -> Any:
    return (loss > 0).sum().item()


def counted_and_compared(loss: Any) -> Any:
    return (loss > 0).sum().item() > 3


def as_index(loss: Any) -> Any:
    return int(loss.item())


@pytest.mark.filterwarnings("ignore:the program reads")
@pytest.mark.parametrize(
    ("read", "text"),
    [(compared, "lt()"), (as_condition, "item()"), (counted_and_compared, "gt()"), (as_index, "int()")],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_what_decides_is_an_error(read: Callable[..., Any], text: str, tmp_path: Path) -> None:
    with dry(tmp_path), pytest.raises(DryRunError) as error:
        read(torch.randn((), device="cuda"))
    for part in (line_of(read), text, "assume={'" + line_of(read), "run.assume("):
        assert part in str(error.value)


def test_a_value_is_assumed_by_line_and_in_a_block(tmp_path: Path) -> None:
    with dry(tmp_path, assume={line_of(as_condition): False, line_of(counted): 7}) as run:
        assert as_condition(torch.randn((), device="cuda")) == 2
        assert counted(torch.randn(9, device="cuda")) == 7
        with run.assume(0.25):
            assert compared(torch.randn((), device="cuda")) is True
        with run.assume(0.75):
            assert compared(torch.randn((), device="cuda")) is False


def masked(x: Any) -> Any:
    return x[x > 0]


def positions(x: Any) -> Any:
    return (x > 0).nonzero()


def selected(x: Any) -> Any:
    return x.masked_select(x > 0)


def distinct(x: Any) -> Any:
    return x.unique()


def changed(x: Any) -> Any:
    x[x > 0] = x[x > 0] * 2
    return x.flatten()


def found_where(x: Any) -> Any:
    return torch.where(x > 0)[1]


@pytest.mark.filterwarnings("ignore:sizes and whole")
@pytest.mark.parametrize("select", [masked, positions, selected, distinct, found_where], ids=lambda each: each.__name__)
def test_a_size_that_depends_on_values(select: Callable[..., Any], tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        x = torch.randn(8, 5, device="cuda")
        with run.assume(12):
            assert select(x).shape[0] == 12
        with run.assume(0.25):
            assert select(x).shape[0] == 10
        with run.assume(41), pytest.raises(DryRunError, match="from 0 to 40"):
            select(x)
        assert run.largest_sizes == {}
        assert select(x).shape[0] == 40
    assert run.largest_sizes == {line_of(select): 40}


def test_sizes_that_count_as_the_largest_are_named(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with dry(tmp_path) as run:
            assert changed(torch.randn(8, 5, device="cuda")).shape == (40,)
            for size in range(1, 9):
                program = compile("\n" * size + "torch.randn(size, device='cuda').nonzero()", "program.py", "exec")
                exec(program)
    assert len(run.largest_sizes) == 9
    assert run.largest_sizes["program.py:4"] == 3
    text = str(warned[-1].message)
    assert text.startswith("sizes and whole numbers that depend on values of the GPU count as the largest possible")
    assert f"{HERE}:{changed.__code__.co_firstlineno + 1}=40, program.py:9=8, " in text
    assert text.endswith("=2, …")


def test_suppressed_boxes_are_at_most_all(tmp_path: Path) -> None:
    """torchvision's operator, whose fake kernel has no size."""
    with torch.library._scoped_library("torchvision", "FRAGMENT") as library:
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        torch.library.register_fake(
            "torchvision::nms",
            lambda boxes, _scores, _threshold: boxes.new_empty(
                torch.library.get_ctx().new_dynamic_size(), dtype=torch.long
            ),
            lib=library,
        )
        with dry(tmp_path) as run:
            boxes = torch.randn(30, 4, device="cuda")
            kept = torch.ops.torchvision.nms(boxes, boxes[:, 0], 0.5)
            assert (kept.shape, kept.dtype, kept.device.type) == ((30,), torch.int64, "cuda")
            assert torch.cuda.memory_allocated() == 2 * 512
    assert list(run.largest_sizes.values()) == [30]


def test_truth_values_are_counted(tmp_path: Path) -> None:
    """As tutorials count what was classified correctly, one by one."""
    with dry(tmp_path):
        x = torch.randn(4, 3, device="cuda")
        is_correct = x.argmax(1) == x.argmin(1)
        counts = [0.0] * 3
        for label, each in zip(torch.tensor([0, 1, 1, 2], device="cuda"), is_correct, strict=True):
            counts[label] += each.item()
        assert list(map(str, counts)) == ["unknown"] * 3
        assert torch.empty(int(sum(each.item() for each in is_correct))).shape == (4,)
        with pytest.raises(DryRunError, match=r"bool\(\) of a value .*False"):
            bool(is_correct[0].item())
        with pytest.raises(DryRunError, match=r"item\(\) reads the value"):
            bool(is_correct[0])


def test_sizes_without_a_largest_one_are_an_error(tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        x = torch.randn(8, device="cuda").long()
        for select in (torch.bincount, lambda x: torch.repeat_interleave(x, x)):
            with pytest.raises(DryRunError, match=rf"{HERE}:\d+: the size of the result of aten::.* run.assume\(128\)"):
                select(x)
            with run.assume(12):
                assert select(x).shape == (12,)


@pytest.mark.parametrize("read", ["tolist", "numpy"])
def test_reading_all_values(read: str, tmp_path: Path) -> None:
    with (
        dry(tmp_path),
        pytest.raises(DryRunError, match=rf"{HERE}:\d+: {read}\(\) reads values of a tensor on the CPU"),
    ):
        getattr(torch.randn(5, device="cuda").cpu(), read)()


def test_an_operator_without_a_fake_kernel(tmp_path: Path) -> None:
    with torch.library._scoped_library("vram_test", "FRAGMENT") as library:
        library.define("unheard_of(Tensor x) -> Tensor")
        library.impl("unheard_of", lambda x: x.clone(), "CPU")
        with dry(tmp_path), pytest.raises(DryRunError) as error:
            torch.ops.vram_test.unheard_of(torch.randn(5, device="cuda"))
    for part in (f"{HERE}:", "vram_test::unheard_of", "no fake kernel", "torch.library.register_fake"):
        assert part in str(error.value)


def test_tensors_on_the_cpu_keep_their_values(tmp_path: Path) -> None:
    with dry(tmp_path):
        lengths = torch.tensor([3, 1, 2])
        assert lengths.max().item() == 3
        assert lengths[lengths > 1].tolist() == [3, 2]
        assert torch.ones(10).sum() == 10
        assert torch.zeros(int(lengths.sum()), 4).cuda().shape == (6, 4)


def test_initialization_draws_until_numbers_are_in_range(tmp_path: Path) -> None:
    with dry(tmp_path):
        weight = torch.nn.Parameter(torch.empty(512, 512, device="cuda"))
        torch.nn.init.trunc_normal_(weight, std=0.02)
        assert weight.shape == (512, 512)


def test_a_write_into_a_tensor_on_the_cpu_is_told(tmp_path: Path) -> None:
    with dry(tmp_path):
        losses = torch.zeros(3)
        with pytest.warns(UserWarning, match="keeps its old values"):
            losses.copy_(torch.randn(3, device="cuda"))
        assert losses.tolist() == [0, 0, 0]


@pytest.mark.parametrize("line", ["train.py", "42", "train.py:x"])
def test_lines_to_assume_are_checked(line: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"train\.py:42"), dry(tmp_path, assume={line: 1}):
        pass


def test_counts_are_printed_and_are_the_largest_as_sizes(tmp_path: Path) -> None:
    with dry(tmp_path) as run, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        correct: Any = 0
        total = 0
        for _ in range(2):
            found, labels = torch.randn(8, 5, device="cuda").argmax(1), torch.randint(0, 5, (8,)).cuda()
            correct += (found == labels).sum().item()
            total += len(labels)
        assert f"{100 * correct // total} {correct / total:.2f} {correct}" == "unknown unknown unknown"
        assert run.largest_sizes == {}
        assert torch.zeros(correct + 1, device="cuda").shape == (17,)
        dead = torch.randn(6, 3, device="cuda").sum(1) < 0
        assert torch.randn(9, device="cuda")[: dead.sum()].shape == (6,)
        assert int(dead.sum()) == 6
        twice: Any = 2 * dead.sum().item()
        assert list(range(twice)) == list(range(12))
    assert sorted(run.largest_sizes.values()) == [6, 6, 12, 17]


# Choices among positions or known numbers, and the largest.
CHOICES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "argmax()": (lambda x: x.argmax(1)[0].item(), 4),
    "argmax() of all": (lambda x: int(x.argmax()), 39),
    "max()": (lambda x: x.max(0)[1].tolist()[3], 7),
    "topk()": (lambda x: x.topk(2, dim=1).indices.cpu().numpy().max(), 4),
    "sort()": (lambda x: x.sort(1)[1].tolist()[0][0], 4),
    "a stable sort": (lambda x: x.argsort(dim=0, stable=True).max().item(), 7),
    "a draw": (lambda x: torch.multinomial(x.softmax(1), 1).squeeze(1).tolist()[0], 4),
    "an action": (lambda x: torch.distributions.Categorical(logits=x).sample().cpu().numpy()[0], 4),
    "known numbers": (lambda x: torch.tensor([3, 9, 5]).cuda()[x[0, :2].argsort()].max().item(), 9),
    "how many follow": (lambda x: torch.ones(int(x.argmax(1).max()) + 1).shape[0], 5),
    "after a write": (lambda x: torch.zeros(8, dtype=torch.long).cuda().copy_(x.argmax(1)).max().item(), 4),
    "a write into a part": (lambda x: _written(x.argmax(1)), 6),
    "a write everywhere": (
        lambda x: torch.arange(8, device="cuda").scatter_(0, torch.arange(8).cuda().flip(0), x.argmax(1)).max().item(),
        4,
    ),
    "tokens": (lambda x: torch.cat([torch.tensor([2]).cuda(), x.argmax(1)]).tolist()[-1], 4),
    "another": (lambda x: torch.where(x[0] > 0, x.argmax(0), 11).tolist()[0], 11),
    "a word of a beam": (lambda x: (x.flatten().topk(2)[1] % 5).tolist()[0], 4),
    "a beam": (lambda x: (x.flatten().topk(2)[1] // 5).tolist()[0], 7),
    "a beam by div()": (lambda x: torch.div(x.argmax(), 5, rounding_mode="floor").item(), 7),
    "one of several": (lambda _x: torch.randperm(12, device="cuda")[:3].tolist()[0], 11),
}


def _written(found: Any) -> Any:
    into = torch.full((8,), 6).cuda()
    into[2:] = found[2:]
    return into.max().item()


@pytest.mark.filterwarnings("ignore:sizes and whole")
@pytest.mark.parametrize(("read", "largest"), CHOICES.values(), ids=CHOICES)
def test_choices_are_the_largest(read: Callable[[Any], Any], largest: int, tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        assert read(torch.randn(8, 5, device="cuda")) == largest
    assert len(run.largest_sizes) == 1


# Of positions from 0 to 4.
NOT_BOUNDED: dict[str, Callable[[Any], Any]] = {
    "overwritten": lambda x: x.copy_(torch.randn(8, device="cuda")),
    "an operator without a rule": lambda x: x ^ 1,
    "a product with a negative number": lambda x: x * -1,
    "a product with a draw that may be negative": lambda x: x * torch.randint(-9, 3, (8,), device="cuda"),
    "a difference from such a draw": lambda x: x - torch.randint(-9, 3, (8,), device="cuda"),
    "counted": lambda x: torch.zeros_like(x).index_put_((x,), torch.ones_like(x), accumulate=True),
    "counted by scatter_()": lambda x: torch.zeros_like(x).scatter_(0, x, torch.ones_like(x), reduce="add"),
    "a sum with a factor": lambda x: torch.add(x, x, alpha=2),
    "a difference with a negative factor": lambda x: torch.sub(x, x, alpha=-1),
    "bytes taken for another type": lambda x: x.to(torch.int8).view(torch.int64),
}


@pytest.mark.parametrize("change", NOT_BOUNDED.values(), ids=NOT_BOUNDED)
def test_what_is_not_known_has_no_largest_value(change: Callable[[Any], Any], tmp_path: Path) -> None:
    with dry(tmp_path), pytest.raises(DryRunError, match="does not compute"):
        change(torch.randn(8, 5, device="cuda").argmax(1)).max().item()


LIBRARY = """
def positive(x):
    return x[x > 0]
def is_positive(x):
    return bool(x.sum() > 0)
def scores(x):
    return x.cpu().numpy()
def lengths(x):
    return x.long().tolist()
def repeated(x):
    import torch
    return torch.repeat_interleave(x, x.long())
"""


@pytest.fixture(name="library")
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "vram_reading_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("vram_reading_library")
    del sys.modules["vram_reading_library"]


@pytest.mark.parametrize(("name", "line"), [("repeated", 12), ("is_positive", 5), ("lengths", 9)])
def test_what_a_library_reads_names_its_line_and_the_programs(
    name: str, line: int, library: Any, tmp_path: Path
) -> None:
    read = getattr(library, name)

    def step(x: Any) -> Any:
        return read(x)

    with dry(tmp_path), pytest.raises(DryRunError) as error:
        step(torch.randn(8, device="cuda"))
    assert f"vram_reading_library.py:{line} (called at {line_of(step)}): " in str(error.value)
    assert f"assume={{'vram_reading_library.py:{line}'" in str(error.value)
    assert f"what is assumed for {line_of(step)} holds for all that this line calls" in str(error.value)


def all_of(library: Any, x: Any) -> Any:
    return library.positive(x).shape[0], library.positive(x[:2]).shape[0], library.lengths(x[:2])


def test_an_assumption_holds_for_what_its_line_calls(library: Any, tmp_path: Path) -> None:
    with dry(tmp_path, assume={line_of(all_of): 4}):
        x = torch.randn(8, device="cuda")
        assert all_of(library, x) == (4, 2, [4, 4])
    with dry(tmp_path, assume={line_of(all_of): 4, "vram_reading_library.py:3": 0.75}):
        assert all_of(library, torch.randn(8, device="cuda")) == (6, 2, [4, 4])


def test_a_library_reads_images_and_scores(library: Any, tmp_path: Path) -> None:
    with dry(tmp_path) as run:
        with pytest.warns(UserWarning, match="those of zeros"):
            scores = library.scores(torch.randn(8, device="cuda"))
        assert scores.tolist() == [0] * 8
        with run.assume(3):
            assert library.scores(torch.randn(2, device="cuda")).tolist() == [3, 3]

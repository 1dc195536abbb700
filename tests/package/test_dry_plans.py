"""vram.dry._plans: what cuDNN itself answers about convolutions, and where PyTorch does not ask it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _plans
from vram.dry._convolutions import DATA, FORWARD, WEIGHT, Workspaces, is_native
from vram.dry._gpu import find_gpu
from vram.dry._kernels import Call, Kernels

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
MIB = 1 << 20
ONES, ZEROS = [1, 1], [0, 0]


def tensor(*shape: int, dtype: torch.dtype = F32, last: bool = False) -> torch.Tensor:
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.empty(shape, dtype=dtype, device="meta", memory_format=layout)


class Answers:
    """Stands for cuDNN: it notes what it is asked, and gives the same answer to all."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.is_exact = self.is_open = True
        self.asked: list[tuple[Any, ...]] = []

    def workspaces(self, *question: Any) -> tuple[int, ...]:
        self.asked.append(question)
        return self.sizes


def workspaces(answers: Answers) -> Workspaces:
    return Workspaces.load("convolutions-2.11.json", answers)  # type: ignore[arg-type]


def test_the_first_plan_is_what_a_call_takes_and_the_smallest_what_it_needs() -> None:
    answers = Answers(300 * MIB, 5 * MIB, 40 * MIB)
    kernels = Kernels.load("sm_90", "2.11.0", {}, answers)  # type: ignore[arg-type]
    x, weight, out = tensor(8, 64, 56, 56), tensor(32, 64, 3, 3), tensor(8, 32, 56, 56)
    args = (x, weight, None, ONES, ONES, ONES, False, ZEROS, 1)
    (found,) = kernels.allocations(Call("aten.convolution.default", args, {}, (out,)))
    assert (found.size_bytes, found.needed_bytes) == (300 * MIB, 5 * MIB)
    shapes = (8, 64, 56, 56), (32, 64, 3, 3), (8, 32, 56, 56)
    assert answers.asked[0] == (FORWARD, "float32", False, *shapes, (1, 1), (1, 1), (1, 1), True)


def test_a_transposed_convolution_asks_about_the_one_that_it_inverts() -> None:
    answers = Answers(MIB)
    small, large, weight = tensor(4, 64, 16, 16), tensor(4, 32, 32, 32), tensor(64, 32, 2, 2)
    for direction in (FORWARD, DATA, WEIGHT):
        workspaces(answers).bytes_of(direction, small, weight, large, [2, 2], ZEROS, ONES, True, 1)
    assert [question[0] for question in answers.asked] == [DATA, FORWARD, WEIGHT]
    assert {question[3:6] for question in answers.asked} == {((4, 32, 32, 32), (64, 32, 2, 2), (4, 64, 16, 16))}


def test_without_an_answer_the_trees_estimate() -> None:
    x, weight, out = (
        tensor(12, 64, 256, 256, dtype=BF16),
        tensor(64, 64, 3, 3, dtype=BF16),
        tensor(12, 64, 256, 256, dtype=BF16),
    )
    call = FORWARD, x, weight, out, ONES, ONES, ONES, False, 1
    assert (
        workspaces(Answers()).bytes_of(*call) == Workspaces.load("convolutions-2.11.json").bytes_of(*call) > 100 * MIB
    )
    assert workspaces(Answers()).least_bytes_of(*call) == 0
    assert workspaces(Answers()).are_exact
    assert not Workspaces.load("convolutions-2.11.json").are_exact


def test_cudnn_is_not_asked_about_float64_and_nothing() -> None:
    answers = Answers(MIB)
    for x in (tensor(2, 8, 9, 9, dtype=torch.float64), tensor(0, 8, 9, 9)):
        weight = tensor(8, 8, 3, 3, dtype=x.dtype)
        assert workspaces(answers).bytes_of(FORWARD, x, weight, x, ONES, ONES, ONES, False, 1) == 0
    assert not answers.asked


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "dilation", "dtype", "last", "expected"),
    [
        ((32, 96, 56, 56), 7, 1, 1, F32, False, True),
        ((32, 96, 56, 56), 7, 1, 1, BF16, False, True),
        ((32, 96, 56, 56), 3, 1, 1, BF16, True, False),  # cuDNN runs what has its channels last
        ((32, 96, 56, 56), 7, 1, 1, F16, False, True),
        ((32, 96, 56, 56), 3, 1, 1, F16, False, False),
        ((32, 24, 56, 56), 3, 1, 1, F16, False, True),  # few channels
        ((32, 96, 56, 56), 3, 1, 2, F16, False, True),
        ((32, 96, 56, 56), 3, 2, 1, F16, False, True),
        ((1, 96, 56, 56), 3, 2, 1, F16, False, False),
        ((32, 256, 28, 28), 3, 2, 1, F16, False, False),
        ((32, 256, 14, 14), 3, 2, 1, F16, False, True),
        ((32, 512, 14, 14), 3, 2, 1, F16, False, False),
        ((32, 512, 5, 5), 3, 1, 1, F16, False, True),  # narrow
    ],
)
def test_pytorch_has_kernels_of_its_own_for_a_group_for_each_channel(
    shape: tuple[int, ...], kernel: int, stride: int, dilation: int, dtype: torch.dtype, last: bool, expected: bool
) -> None:
    channels = shape[1]
    x, weight = tensor(*shape, dtype=dtype, last=last), tensor(channels, 1, kernel, kernel, dtype=dtype)
    assert is_native(x, weight, [stride] * 2, [dilation] * 2, False, channels) == expected
    assert not is_native(x, tensor(channels, channels // 2, 3, 3, dtype=dtype), ONES, ONES, False, 2)
    assert not is_native(x, weight, ONES, ONES, True, channels)


def test_a_native_kernel_needs_no_workspace() -> None:
    answers = Answers(MIB)
    image, weight = tensor(32, 96, 56, 56), tensor(96, 1, 7, 7)
    assert workspaces(answers).bytes_of(FORWARD, image, weight, image, ONES, [3, 3], ONES, False, 96) == 0
    assert not answers.asked


def test_a_gpu_is_described_by_what_cuda_reports_of_its_generation() -> None:
    found = json.loads(_plans.description(find_gpu("H100 80GB")) or "")
    assert found["deviceVer"] == 900
    assert (found["multiProcessorCount"], found["maxSharedMemoryPerBlockOptin"]) == (132, 227 << 10)
    assert json.loads(_plans.description(find_gpu("RTX 4090")) or "")["multiProcessorCount"] == 128


@pytest.mark.parametrize(
    "script",
    [
        "raise SystemExit('cannot open libcublasLt.so')",
        'print(\'{"version": 90100, "is_here": false}\', flush=True)',  # an old cuDNN
        'print(\'{"version": 91200, "is_here": false}\', flush=True)',  # another one than that of PyTorch 2.11
    ],
)
def test_where_cudnn_cannot_answer_the_trees_estimate(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "answers.py"
    program.write_text(script)
    monkeypatch.setattr(_plans, "_ANSWERS", program)
    plans = _plans.Plans([Path("libcudnn.so.9")], _plans.description(find_gpu("H200")) or "", "2.11.0")
    x, weight, out = tensor(12, 64, 256, 256), tensor(64, 64, 3, 3), tensor(12, 64, 256, 256)
    call = FORWARD, x, weight, out, ONES, ONES, ONES, False, 1
    found = Workspaces.load("convolutions-2.11.json", plans)
    assert found.bytes_of(*call) == Workspaces.load("convolutions-2.11.json").bytes_of(*call)
    assert not found.are_answered
    assert not found.are_exact


def test_each_question_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, asked = tmp_path / "answers.py", tmp_path / "asked"
    program.write_text(
        "import json, sys\n"
        "print(json.dumps({'version': 91900, 'is_here': True}), flush=True)\n"
        f"for line in sys.stdin: open({str(asked)!r}, 'a').write(line); print('[70, 9]', flush=True)\n"
    )
    monkeypatch.setattr(_plans, "_ANSWERS", program)
    monkeypatch.setattr(_plans, "_known", {})
    x, weight = tensor(4, 16, 100), tensor(16, 16, 3)
    for _ in range(2):  # another dry run
        plans = _plans.Plans([Path("libcudnn.so.9")], "{}", "2.11.0")
        found = Workspaces.load("convolutions-2.11.json", plans)
        call = WEIGHT, x, weight, x, [1], [1], [1], False, 1
        assert (found.bytes_of(*call), found.least_bytes_of(*call)) == (70, 9)
        assert found.are_exact
        plans.close()
    shapes = [4, 16, 1, 100], [16, 16, 1, 3], [4, 16, 1, 100]
    assert [json.loads(line) for line in asked.read_text().splitlines()] == [
        [WEIGHT, "float32", False, *shapes, [1, 1], [0, 1], [1, 1], True]
    ]


@pytest.fixture
def plans() -> Iterator[_plans.Plans]:
    found = _plans.Plans.load(find_gpu("H200"), torch.__version__)
    if found is None or not found.is_open:
        pytest.skip("cuDNN with its libraries is not installed (pip install 'vram[cudnn]'), or is another PyTorch's")
    yield found
    found.close()


def test_cudnn_answers_for_a_gpu(plans: _plans.Plans) -> None:
    x = (8, 64, 56, 56)
    call = FORWARD, "float32", False, x, (64, 64, 3, 3), x, (1, 1), (1, 1), (1, 1)
    found = plans.workspaces(*call, True)
    copies_bytes = 2 * 8 * 64 * 56 * 56 * 4
    assert 0 < found[0] < 2 * copies_bytes
    assert found[-1] == 0
    assert 0 not in found[:-1]
    assert plans.workspaces(*call, True) is found  # asked once
    sequence = (8, 64, 500), (64, 64, 3), (8, 64, 498)
    assert plans.workspaces(WEIGHT, "bfloat16", False, *sequence, (1,), (0,), (1,), True)


def test_impossible_convolutions_have_no_answer(plans: _plans.Plans) -> None:
    wrong = (8, 64, 56, 56), (64, 64, 3, 3), (8, 64, 99, 99)
    assert plans.workspaces(FORWARD, "float32", False, *wrong, (1, 1), (1, 1), (1, 1), True) == ()

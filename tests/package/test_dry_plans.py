"""vram.dry._plans: what cuDNN itself answers about convolutions, and where PyTorch does not ask it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import _plans
from vram.dry._convolutions import Workspaces, is_native
from vram.dry._gpu import find_gpu
from vram.dry._kernels import Call, Kernels
from vram.dry._workspaces import DATA, FORWARD, WEIGHT

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
MIB = 1 << 20
NAME = "convolutions-2.11.json.xz"
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
    return Workspaces(NAME, answers)  # type: ignore[arg-type]


def test_the_first_plan_is_what_a_call_takes_and_smaller_ones_what_it_takes_instead() -> None:
    answers = Answers(300 * MIB, 40 * MIB, 300 * MIB, 70 * MIB, 5 * MIB, 5 * MIB)
    kernels = Kernels.load("sm_90", "2.11.0", {}, answers)  # type: ignore[arg-type]
    x, weight, out = tensor(8, 64, 56, 56), tensor(32, 64, 3, 3), tensor(8, 32, 56, 56)
    args = (x, weight, None, ONES, ONES, ONES, False, ZEROS, 1)
    (found,) = kernels.allocations(Call("aten.convolution.default", args, {}, (out,)))
    assert (found.size_bytes, found.needed_bytes) == (300 * MIB, (40 * MIB, 5 * MIB))
    shapes = (8, 64, 56, 56), (32, 64, 3, 3), (8, 32, 56, 56)
    assert answers.asked[0] == (FORWARD, "float32", False, *shapes, (1, 1), (1, 1), (1, 1), True)


def test_a_call_whose_plans_need_the_same_runs_with_nothing_less() -> None:
    kernels = Kernels.load("sm_90", "2.11.0", {}, Answers(5 * MIB, 40 * MIB))  # type: ignore[arg-type]
    x, weight, out = tensor(8, 64, 56, 56), tensor(32, 64, 3, 3), tensor(8, 32, 56, 56)
    args = (x, weight, None, ONES, ONES, ONES, False, ZEROS, 1)
    (found,) = kernels.allocations(Call("aten.convolution.default", args, {}, (out,)))
    assert found.needed_bytes is None


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
    assert workspaces(Answers()).bytes_of(*call) == Workspaces(NAME).bytes_of(*call) > 100 * MIB
    assert workspaces(Answers()).fallbacks_of(*call) == (0,)
    assert workspaces(Answers()).are_exact
    assert not Workspaces(NAME).are_exact


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
    found = Workspaces(NAME, plans)
    assert found.bytes_of(*call) == Workspaces(NAME).bytes_of(*call)
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
        found = Workspaces(NAME, plans)
        call = WEIGHT, x, weight, x, [1], [1], [1], False, 1
        assert (found.bytes_of(*call), found.fallbacks_of(*call)) == (70, (9,))
        assert found.are_exact
        plans.close()
    shapes = [4, 16, 1, 100], [16, 16, 1, 3], [4, 16, 1, 100]
    assert [json.loads(line) for line in asked.read_text().splitlines()] == [
        [WEIGHT, "float32", False, *shapes, [1, 1], [0, 1], [1, 1], True]
    ]


GREETING = "import json, os, sys, time\nprint(json.dumps({'version': 91900, 'is_here': True}), flush=True)\n"
NEXT = "sys.stdin.readline()\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import time; time.sleep(600)", "did not answer within"),
        (GREETING + "time.sleep(600)", "did not answer within"),
        (GREETING + NEXT + "os.write(1, b'[70, '); time.sleep(600)", "did not answer within"),
        (GREETING + NEXT + "while True: os.write(1, b'7'); time.sleep(0.05)", "did not answer within"),
        (GREETING + NEXT + "while True: os.write(1, b'7' * 65536)", "an unexpected line"),
        (GREETING + NEXT + "os.write(1, b'[70, ')", "it ended"),
        (GREETING, "it ended"),
        (GREETING + NEXT + "print('cuDNN: a message', flush=True); time.sleep(600)", "an unexpected line"),
        (GREETING + NEXT + "print('[-70]', flush=True); time.sleep(600)", "an unexpected line"),
        (GREETING + NEXT + "print('{}', flush=True); time.sleep(600)", "an unexpected line"),
        ("print('{}', flush=True); import time; time.sleep(600)", "an unexpected line"),
        ("print('no JSON', flush=True); import time; time.sleep(600)", "an unexpected line"),
    ],
)
def test_a_process_that_does_not_answer_is_ended_and_the_trees_estimate(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plans_of(script, tmp_path, monkeypatch)
    if "did not answer" in reason:
        monkeypatch.setattr(_plans, "_ANSWER_TIMEOUT" if script.startswith(GREETING) else "_START_TIMEOUT", 0.5)
    found = Workspaces(NAME, plans)
    image, weight = tensor(12, 64, 256, 256), tensor(64, 64, 3, 3)
    call = FORWARD, image, weight, image, ONES, ONES, ONES, False, 1
    with pytest.warns(UserWarning, match=reason) as warned:
        assert found.bytes_of(*call) == Workspaces(NAME).bytes_of(*call)
    assert found.fallbacks_of(*call) == (0,)
    assert not found.are_answered
    assert not found.are_exact
    assert len(warned) == 1
    assert_ended(tmp_path)


def plans_of(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> _plans.Plans:
    """Return the plans of a process that runs this script, and writes its id into a file first."""
    program = folder / "answers.py"
    program.write_text(f"import os; open({str(folder / 'pid')!r}, 'w').write(str(os.getpid()))\n{script}")
    monkeypatch.setattr(_plans, "_ANSWERS", program)
    monkeypatch.setattr(_plans, "_known", {})
    return _plans.Plans([Path("libcudnn.so.9")], "{}", "2.11.0")


def assert_ended(folder: Path) -> None:
    written = (folder / "pid").read_text() if (folder / "pid").exists() else ""
    if written:  # it was ended before it wrote otherwise
        with pytest.raises(ProcessLookupError):  # it would exist as a zombie
            os.kill(int(written), 0)


ANSWERING = GREETING + "for line in sys.stdin: print('[70, 9]', flush=True)\n"
QUESTION = (FORWARD, "float32", False, (4, 16, 9, 9), (16, 16, 3, 3), (4, 16, 9, 9), (1, 1), (1, 1), (1, 1), True)


def test_an_answer_that_was_not_waited_for_is_not_that_of_the_next_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = plans_of(
        GREETING + "for line in sys.stdin: time.sleep(0.6); print('[70, 9]', flush=True)\n", tmp_path, monkeypatch
    )

    class Interrupted(Exception):
        """Raised by the program's own signal handler."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise Interrupted

    assert plans.is_open
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            plans.workspaces(*QUESTION)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert plans.workspaces(*QUESTION) == ()
    assert not plans.is_exact
    assert_ended(tmp_path)


def test_closing_waits_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child of the program, such as a worker of a data loader, keeps the connection open; and cuDNN may hang."""
    plans = plans_of(ANSWERING + "time.sleep(600)", tmp_path, monkeypatch)
    assert plans.workspaces(*QUESTION) == (70, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a process with threads
        worker = os.fork()
    if not worker:
        plans.close()  # not its own
        time.sleep(600)
        os._exit(0)
    try:
        plans.close()
        assert_ended(tmp_path)
        assert plans.workspaces(*QUESTION) == (70, 9)
        assert plans.is_exact
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_a_copy_in_a_forked_process_neither_asks_nor_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of(ANSWERING, tmp_path, monkeypatch)
    assert plans.is_open
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        worker = os.fork()
    if not worker:
        try:
            answer = plans.workspaces(*QUESTION)
            plans.close()
            os._exit(0 if answer == () else 1)
        finally:
            os._exit(2)
    assert os.waitpid(worker, 0)[1] == 0
    assert plans.workspaces(*QUESTION) == (70, 9)
    plans.close()
    assert_ended(tmp_path)


def test_a_program_that_dies_of_sigpipe_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = plans_of(GREETING, tmp_path, monkeypatch)
    assert plans.is_open
    time.sleep(0.3)  # it has ended
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        with pytest.warns(UserWarning, match="it ended"):
            assert plans.workspaces(*QUESTION) == ()
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_the_process_has_no_files_of_the_program_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = (
        GREETING + "for line in sys.stdin: print(json.dumps([*map(int, os.listdir('/proc/self/fd'))]), flush=True)\n"
    )
    with (tmp_path / "dataset").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        plans = plans_of(listing, tmp_path, monkeypatch)
        assert set(plans.workspaces(*QUESTION)) <= {0, 1, 2, 3}  # 3 lists the folder
        plans.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with the functions of cuDNN's that are called."""
    path = tmp_path_factory.mktemp("cudnn") / "libcudnn.so.9"
    source = Path(__file__).with_name("answering_cudnn.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(path), str(source)], check=True, timeout=60)
    return path


def answers(
    library: Path, *questions: Any, processors: int | None = 132, prints: str = ""
) -> tuple[list[Any], list[str]]:
    """Return what the process prints for each question, and the attributes that the library got.

    `processors` are those of the GPU. The library `prints` something to standard output, as cuDNN's log can.
    """
    device = _plans.description(find_gpu("H200")) or ""
    words = [sys.executable, str(_plans._ANSWERS), str(library), device]
    environment = {**os.environ, **({"PROCESSORS": str(processors)} if processors else {}), "PRINTS": prints}
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True, env=environment, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.splitlines()


@pytest.mark.parametrize("is_here", [False, True])
def test_plans_that_can_be_built_are_listed_up_to_one_without_workspace(library: Path, is_here: bool) -> None:
    shapes = [8, 64, 56, 56], [32, 64, 3, 3], [8, 32, 56, 56]
    how = [1, 1], [1, 1], [1, 1]
    questions = [
        [direction, "float32", False, *shapes, *how, allow_tf32]
        for direction in (FORWARD, DATA, WEIGHT)
        for allow_tf32 in (True, False)
    ]
    about, *found = answers(library, *questions, processors=132 if is_here else 108)[0]
    assert about == {"version": 91900, "is_here": is_here}
    # The second engine has no plan, and the first one is not for float32 without TF32.
    assert found == [[1000, 1002, 1010, 0], [1002, 1010, 0]] * 3


def test_without_a_gpu_there_is_no_answer(library: Path) -> None:
    shape = [8, 64, 56, 56]
    question = [FORWARD, "float32", False, shape, [64, 64, 3, 3], shape, [1, 1], [1, 1], [1, 1], True]
    assert answers(library, question, processors=None)[0] == []


def test_what_libraries_print_is_no_answer(library: Path) -> None:
    shape = [8, 64, 56, 56]
    question = [FORWARD, "float32", False, shape, [64, 64, 3, 3], shape, [1, 1], [1, 1], [1, 1], True]
    found, printed = answers(library, question, prints="cuDNN (v91900) function cudnnCreate() called:")
    assert found[0] == {"version": 91900, "is_here": True}
    assert len(found) == 2
    assert "cuDNN (v91900) function cudnnCreate() called:" in printed


def test_cudnn_gets_shapes_strides_and_padding(library: Path) -> None:
    shapes = [8, 64, 56, 50], [32, 64, 3, 5], [8, 32, 28, 25]
    _, attributes = answers(library, [FORWARD, "bfloat16", True, *shapes, [2, 2], [1, 2], [1, 1], True])
    assert attributes == [
        "902 8 64 56 50", "903 179200 1 3200 64", "906 120", "900 32",
        "902 8 32 28 25", "903 22400 1 800 32", "906 121", "900 32",
        "902 32 64 3 5", "903 960 1 320 64", "906 119", "900 32",
        "106 2", "103 2 2", "105 1 2", "104 1 2", "102 1 1",
    ]  # fmt: skip

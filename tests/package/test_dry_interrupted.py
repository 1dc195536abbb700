"""Dry runs that something ends at an unusual moment: they leave PyTorch, and the recorder, as they were."""

# mypy: allow-untyped-calls

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from vram._error import VramError
from vram.dry import DryRun, _accelerator, _interrupts, dry_run, predict
from vram.dry._patches import Patches
from vram.dry._tape import Tape
from vram.recording import _process


@pytest.fixture(autouse=True)
def sigint_interrupts() -> Iterator[None]:
    """What a script starts in the background ignores SIGINT, and so do its own programs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def raising(*_arguments: Any) -> None:
    raise KeyboardInterrupt


def test_a_call_that_fails_keeps_no_other_change_in_place() -> None:
    owner, patches = SimpleNamespace(a=1, b=2), Patches()
    patches.put(owner, "a", 3)
    patches.on_undo(raising)
    patches.put(owner, "b", 4)
    patches.put(owner, "c", 5)
    with pytest.raises(KeyboardInterrupt):
        patches.undo()
    assert owner == SimpleNamespace(a=1, b=2)


def test_a_recording_that_could_not_begin_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(_process, "describe", raising)
        with pytest.raises(KeyboardInterrupt):
            dry_run(path=tmp_path / "first.vtrace").__enter__()
    with dry_run(path=tmp_path / "second.vtrace"):
        assert torch.ones(3).cuda().device.type == "cuda"


def test_results_that_fail_end_the_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = torch.empty
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), dry_run(path=tmp_path / "dry.vtrace") as run:
        patch.setattr(run._session, "parameters", raising)
    assert torch.empty is empty


def pause() -> None:
    end = time.monotonic() + 1
    while time.monotonic() < end:
        time.sleep(0.001)


def make_and_pause(made: list[Any]) -> None:
    made.append(torch.ones(3).cuda())
    pause()


def leave_and_pause(run: DryRun) -> None:
    run.__exit__(None, None, None)
    pause()


def test_ctrl_c_within_an_operator_interrupts_the_program_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's C++ code calls the operators of a dry run, also where an exception aborts the process."""
    allocate = Tape.allocate
    ended: list[Any] = []

    def interrupted(*arguments: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        address = allocate(*arguments)
        ended.append(address)
        return address

    with dry_run(path=tmp_path / "dry.vtrace"):
        monkeypatch.setattr(Tape, "allocate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make_and_pause(ended)
        assert [type(each) for each in ended[:1]] == [int]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_comes_as_soon_as_the_program_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators take most of the time, so that asking again later may find the program in another one each time."""
    allocate = Tape.allocate

    def interrupted(*arguments: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return allocate(*arguments)

    monkeypatch.setattr(_interrupts, "_RETRY_SECONDS", 60)
    before = sys.gettrace()
    begun: list[int] = []

    def make() -> None:
        for number in range(3):
            begun.append(number)
            torch.ones(3, device="cuda")

    with dry_run(path=tmp_path / "dry.vtrace"):
        monkeypatch.setattr(Tape, "allocate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            make()
    assert begun == [0]
    assert sys.gettrace() is before


class InterruptedEngine:
    """Is asked whether there is an accelerator, from C++."""

    asked = 0

    @property
    def finds_accelerator(self) -> bool:
        self.asked += 1
        if self.asked == 1:
            signal.raise_signal(signal.SIGINT)
        return False

    @finds_accelerator.setter
    def finds_accelerator(self, value: bool) -> None: ...


def test_ctrl_c_in_a_function_that_ctypes_calls_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints an exception there, and continues."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        monkeypatch.setattr(_accelerator, "engine", InterruptedEngine())
        hook = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)(_accelerator.is_built)
        with pytest.raises(KeyboardInterrupt):
            call_and_pause(hook)


def call_and_pause(hook: Any) -> None:
    assert hook(None) is False
    pause()


def test_ctrl_c_while_a_dry_run_begins_or_ends_interrupts_it_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = torch.empty

    def interrupted(*_arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(_process, "describe", interrupted)
        with pytest.raises(KeyboardInterrupt), dry_run(path=tmp_path / "first.vtrace"):
            pause()
    run = dry_run(path=tmp_path / "second.vtrace").__enter__()
    monkeypatch.setattr(run._session, "parameters", interrupted)
    with pytest.raises(KeyboardInterrupt):
        leave_and_pause(run)
    assert torch.empty is empty
    assert run._is_done


def test_ctrl_c_ends_an_operator_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_interrupts, "_MAX_DELAY_SECONDS", 0.1)

    def hanging(*_arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        while True:
            time.sleep(0.001)

    with dry_run(path=tmp_path / "dry.vtrace"):
        monkeypatch.setattr(Tape, "allocate", hanging)
        with pytest.raises(KeyboardInterrupt):
            torch.ones(3).cuda()


def test_an_interrupted_program_leaves_gradients_on(tmp_path: Path) -> None:
    """Ctrl-C may come between torch.no_grad() and its end."""
    run = dry_run(path=tmp_path / "dry.vtrace").__enter__()
    torch.set_grad_enabled(False)
    run.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert torch.is_grad_enabled()


@pytest.mark.filterwarnings("ignore:sizes and whole")
def test_a_dry_run_that_is_refused_takes_nothing_from_the_one_that_runs(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        with pytest.raises(VramError, match="recorded already"):
            dry_run(path=tmp_path / "other.vtrace").__enter__()
        torch.randn(8, device="cuda").argmax().item()
    assert list(run.largest_sizes.values()) == [7]


def test_a_default_device_of_the_program_ends_with_the_dry_run(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        torch.set_default_device("cuda")
        assert torch.ones(2).is_cuda
    assert torch.ones(2).device.type == "cpu"
    torch.set_default_device("meta")
    try:
        with dry_run(path=tmp_path / "dry.vtrace"):
            torch.set_default_device("cuda:0")
        assert torch.ones(2).is_meta
    finally:
        torch.set_default_device(None)


def test_each_run_of_a_program_begins_with_the_same_defaults() -> None:
    begun = []

    def train(width: int) -> None:
        begun.append((torch.get_default_dtype(), torch.ones(1).device.type))
        torch.set_default_dtype(torch.bfloat16)
        torch.set_default_device("cuda")
        model = torch.nn.Linear(width, width)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        while True:
            model(torch.ones(8, width)).sum().backward()
            optimizer.step()

    run = predict(train, "24GiB", width=256)
    assert run.what_if(width=512).peak.requested_bytes > run.peak.requested_bytes
    assert begun == [(torch.float32, "cpu")] * 2
    assert torch.get_default_dtype() == torch.float32


def test_ctrl_c_comes_at_once_if_the_program_sets_an_answer_again_after_the_dry_run(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGINT, kept)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)

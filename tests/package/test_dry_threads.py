"""Dry runs of programs whose threads put tensors on the GPU: prefetchers, and libraries that read files in parallel."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
import multiprocessing
import queue
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from vram._error import VramError
from vram._prototypes import EVENT_SEGMENT_FREE
from vram.dry import DryRun, dry_run, predict
from vram.dry._tape import Tape
from vram.dry._values import DryRunError

_BIG = 1 << 20  # elements


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Iterator[DryRun]:
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace") as run:
        yield run


MAKE: list[Callable[[], Any]] = [
    lambda: torch.empty(_BIG, device="cuda"),
    lambda: torch.ones(_BIG).pin_memory().to("cuda", non_blocking=True),
    lambda: torch.ones(_BIG).cuda(),
]


def ends_in_fork(call: Callable[[], object], seconds: float) -> None:
    """Assert that a fork of this process calls it without an error, and is not stuck."""
    worker = multiprocessing.get_context("fork").Process(target=call)
    worker.start()
    worker.join(seconds)
    is_stuck = worker.is_alive()
    worker.kill()
    worker.join(60)
    assert not is_stuck
    assert worker.exitcode == 0


@pytest.mark.parametrize("make", MAKE)
def test_what_a_thread_puts_on_the_gpu_is_counted(make: Callable[[], Any], run: DryRun) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _number: make(), range(8)))
    assert all(each.device == torch.device("cuda", 0) for each in made)
    assert torch.cuda.memory_allocated() == 8 * 4 * _BIG
    del made
    assert torch.cuda.memory_allocated() == 0
    assert not run.unknown_operators


@pytest.mark.usefixtures("run")
def test_threads_do_not_disturb_each_other() -> None:
    """While one is inside an operator, another asks where its tensors are, and trains."""
    ends = threading.Event()

    def prefetch() -> int:
        count = 0
        while not ends.is_set():
            batch = torch.ones(8, 8).to("cuda", non_blocking=True) * 2
            assert batch.device.type == "cuda"
            count += 1
        return count

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)).cuda()

    def train() -> None:
        loss = model(torch.ones(8, 8).cuda()).sum()
        assert loss.device.type == "cuda"
        loss.backward()

    train()
    before = torch.cuda.memory_allocated()
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(prefetch) for _ in range(2)]
        for _ in range(30):
            train()
        ends.set()
        assert all(other.result() > 0 for other in others)
    assert torch.cuda.memory_allocated() == before


@pytest.mark.usefixtures("run")
def test_copies_of_tensors_belong_to_the_same_dry_run() -> None:
    model: Any = nn.Linear(8, 8).cuda()
    copied = copy.deepcopy(model)
    assert copied.weight.fake_mode is model.weight.fake_mode
    assert (copied(torch.ones(8).cuda()) + model(torch.ones(8).cuda())).device.type == "cuda"


@pytest.mark.parametrize("make", MAKE)
def test_a_thread_from_before_gets_an_error(make: Callable[[], Any], tmp_path: Path) -> None:
    """The program may catch it, so there is a warning, too."""
    begun, errors = threading.Event(), []

    def prefetch() -> None:
        begun.wait(60)
        try:
            make()
        except DryRunError as error:
            errors.append(error)

    thread = threading.Thread(target=prefetch)
    thread.start()
    with dry_run(path=tmp_path / "dry.vtrace"), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        begun.set()
        thread.join(60)
    assert any("in a thread that was started before" in str(each.message) for each in warned)
    assert "test_dry_threads.py:" in str(errors[0])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ends_with_an_error_is_said(tmp_path: Path) -> None:
    before = threading.excepthook
    with dry_run(path=tmp_path / "dry.vtrace"):
        thread = threading.Thread(target=lambda: torch.ones(3, device="cuda").tolist() and 1 / 0)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            thread.start()
            thread.join(60)
    assert any("a thread ended with an error" in str(each.message) for each in warned)
    assert threading.excepthook is before


@pytest.mark.usefixtures("run")
def test_a_tensor_that_dies_while_segments_are_returned_is_freed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread, or a garbage collection, ends it then."""
    held = [torch.empty(3 * _BIG, device="cuda")]
    torch.empty(8 * _BIG, device="cuda")  # and its segment is not in use any more
    emit = Tape._emit

    def ending(tape: Tape, kind: int, *event: Any) -> None:
        if kind == EVENT_SEGMENT_FREE:
            held.clear()
        emit(tape, kind, *event)

    monkeypatch.setattr(Tape, "_emit", ending)
    torch.cuda.empty_cache()
    assert not held
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


@pytest.mark.usefixtures("run")
def test_processes_that_are_forked_while_a_thread_computes_do_not_hang() -> None:
    """Workers of data loaders, next to a thread that prefetches."""
    ends = threading.Event()

    def prefetch() -> None:
        while not ends.is_set():
            torch.ones(8, 8).to("cuda", non_blocking=True) * 2

    with ThreadPoolExecutor(1) as pool:
        prefetching = pool.submit(prefetch)
        try:
            for _ in range(5):
                ends_in_fork(lambda: torch.ones(3) + 1, seconds=20)
        finally:
            ends.set()
        prefetching.result()


def train_for_real() -> tuple[type, float]:
    torch.manual_seed(0)
    model = nn.Linear(400, 1000)
    loss = model(torch.ones(700, 400)).square().mean()
    loss.backward()
    return type(model.weight.data), loss.item()


def test_executors_are_followed_in_each_dry_run_and_compute_between_them(tmp_path: Path) -> None:
    expected = train_for_real()
    assert expected[0] is torch.Tensor
    made: list[Any] = []
    with ThreadPoolExecutor(1, initializer=lambda: made.append(MAKE[0]())) as pool:
        for number in range(3):
            with dry_run(path=tmp_path / f"{number}.vtrace"):
                made.append(pool.submit(MAKE[2]).result(60))
                assert all(each.device.type == "cuda" for each in made)
                assert torch.cuda.memory_allocated() == len(made) * 4 * _BIG
                made.clear()
            assert pool.submit(train_for_real).result(60) == expected


def test_threads_that_outlast_a_dry_run_compute_again(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(_BIG)}, tmp_path / "model.pt")
    expected = train_for_real()
    with dry_run(path=tmp_path / "dry.vtrace"):
        pool = ThreadPool(1)
        assert pool.apply(MAKE[2]).device.type == "cuda"
    assert pool.apply(train_for_real) == expected
    loaded = pool.apply(torch.load, (tmp_path / "model.pt",))["weight"]
    assert (type(loaded), loaded.sum().item()) == (torch.Tensor, _BIG)
    pool.terminate()


def train() -> None:
    model = nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    while True:
        model(torch.ones(4, 8, device="cuda")).sum().backward()
        optimizer.step()


def waits_for_an_item() -> None:
    queue.Queue().get()


def waits_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def computes() -> None:
    while True:
        (torch.ones(4, 8, device="cuda", requires_grad=True) * 2).sum().backward()


def waits_with_handlers() -> None:
    try:
        threading.Event().wait(300)
    except Exception:
        computes()


@pytest.mark.parametrize("wait", [waits_for_an_item, waits_for_a_lock, computes, waits_with_handlers])
def test_a_program_ends_with_enough_steps_of_another_thread(wait: Callable[[], None]) -> None:
    """It is in a process of its own, which is killed if it hangs."""

    def program() -> None:
        threading.Thread(target=train).start()
        wait()

    def run() -> None:
        assert predict(program, "24GiB").steps == 4
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    ends_in_fork(run, seconds=300)


def test_a_thread_that_trains_ends_silently_after_enough_steps(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> None:
        thread = threading.Thread(target=train)
        thread.start()
        thread.join(60)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert predict(program, "24GiB").steps == 4
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("enters_here", [True, False])
def test_a_dry_run_that_is_left_in_another_thread_ends_in_both(enters_here: bool, tmp_path: Path) -> None:
    """As fixtures with a time limit do, and notebooks whose cells run in threads."""
    expected = train_for_real()
    run = dry_run(path=tmp_path / "dry.vtrace")
    with ThreadPoolExecutor(1) as pool:

        def there(call: Callable[..., Any], *args: Any) -> Any:
            return pool.submit(call, *args).result(60)

        def here(call: Callable[..., Any], *args: Any) -> Any:
            return call(*args)

        enter, leave = (here, there) if enters_here else (there, here)
        enter(run.__enter__)
        made = enter(MAKE[0])
        with pytest.raises(VramError):  # there is one
            enter(dry_run(path=tmp_path / "refused.vtrace").__enter__)
        leave(run.__exit__, None, None, None)
        del made
        assert run.peak.requested_bytes >= 4 * _BIG
        for thread in (enter, leave):
            assert thread(torch.ones, 2).device.type == "cpu"
            assert thread(train_for_real) == expected

        def again() -> str:
            with dry_run(path=tmp_path / "again.vtrace"):
                return str(MAKE[2]().device)

        assert (enter(again), leave(again)) == ("cuda:0", "cuda:0")
        assert enter(train_for_real) == leave(train_for_real) == expected
        assert enter(_get_current_dispatch_mode_stack) == [], "autograd adds gradients in another way below a mode"
        assert enter(torch.autograd.is_multithreading_enabled)

"""What recording puts into a program, where something comes between: failures, other patches, signals, garbage, forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import marks
import pytest
import torch
from conftest import ROOT

import vram
import vram.torch
from vram.monitoring import _driver
from vram.recording import _flight, _graphs, _growth, _record, _taps
from vram.torch import _recording
from vram.watching import _process

MAX_WAIT_S = 60.0


def ends(work: Callable[[], object]) -> bool:
    """Whether the work ends: a thread that waits for itself never does."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(MAX_WAIT_S)
    return not thread.is_alive()


class Graph:
    """In place of torch.cuda.CUDAGraph."""

    def capture_begin(self) -> str:
        return "begun"

    def capture_end(self) -> str:
        return "ended"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A PyTorch with CUDA whose graphs take 100 bytes each."""
    used = iter(range(0, 10_000, 100))
    cuda = SimpleNamespace(CUDAGraph=type("CUDAGraph", (Graph,), dict(vars(Graph))), current_device=lambda: 0)
    found = SimpleNamespace(version=SimpleNamespace(cuda="13.0"), cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", found)
    monkeypatch.setattr(vram.torch, "require_driver", lambda: None)
    monkeypatch.setattr(_growth, "outside_bytes", lambda _device: next(used))
    return found


def test_a_tap_that_fails_leaves_nothing_behind(
    stand_in: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*, stacks: bool) -> None:
        raise vram.VramError(f"no compiler, stacks {stacks}")

    monkeypatch.setattr(_recording, "start_tap", fail)
    graph_class = stand_in.cuda.CUDAGraph
    before = dict(vars(graph_class))
    for begin in (lambda: vram.record(tmp_path / "run.vtrace"), lambda: vram.flight_recorder(tmp_path, stacks=None)):
        with pytest.raises(vram.VramError, match="no compiler"):
            begin()
        assert dict(vars(graph_class)) == before
        assert not vram.is_recording()


def test_a_patch_that_came_later_stays(stand_in: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[object] = []
    monkeypatch.setattr(_growth, "add", lambda *measured: grown.append(measured))
    graph_class = stand_in.cuda.CUDAGraph
    end = graph_class.capture_end
    _graphs.start()
    ours: Any = graph_class.capture_begin
    monkeypatch.setattr(graph_class, "capture_begin", lambda graph: f"patched, {ours(graph)}")
    later = graph_class.capture_begin
    graph = graph_class()
    assert graph.capture_begin() == "patched, begun"
    assert graph.capture_end() == "ended"
    assert grown == [("CUDA graphs", 0, 0)]
    _graphs.stop()
    assert graph_class.capture_begin is later
    assert graph_class.capture_end is end
    assert graph.capture_begin() == "patched, begun"
    _graphs.start()
    assert graph.capture_begin() == "patched, begun"
    assert graph.capture_end() == "ended"
    _graphs.stop()
    assert len(grown) == 2


def test_a_handler_may_stop_what_is_being_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = vram.record(tmp_path / "run.vtrace")
    end = _record._end

    def interrupted() -> None:  # as by a signal's handler in Python, between two instructions
        recording.stop()
        end()

    monkeypatch.setattr(_record, "_end", interrupted)
    assert ends(recording.stop)
    assert not vram.is_recording()


def test_a_flight_recorder_that_rests_does_not_end_the_recordings_taps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[bool] = []
    recorder = vram.flight_recorder(tmp_path / "flights", stacks=None)
    with vram.record(tmp_path / "run.vtrace"):
        monkeypatch.setattr(_taps, "stop", lambda: stopped.append(vram.is_recording()))
        recorder.stop()
        assert stopped == []
        assert vram.is_recording()
    assert stopped == [True]  # by the recording itself
    assert not vram.is_recording()
    with pytest.raises(vram.VramError, match="was stopped"):
        recorder.dump()


def test_a_step_does_not_tap_a_pytorch_that_is_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []

    def start(*, with_stacks: bool) -> bool:
        started.append(with_stacks)
        return False

    monkeypatch.setattr(_taps, "start", start)
    importing = SimpleNamespace(__spec__=SimpleNamespace(_initializing=True))
    monkeypatch.delitem(sys.modules, "torch")
    with vram.flight_recorder(tmp_path, stacks=None):
        started.clear()
        monkeypatch.setitem(sys.modules, "torch", importing)
        vram.step()
        assert started == []
        importing.__spec__._initializing = False
        vram.step()
        vram.step()
        assert started == [False]


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_made_by_fork_may_have_a_flight_recorder_of_its_own(tmp_path: Path) -> None:
    with vram.flight_recorder(tmp_path, stacks=None) as recorder:
        child = os.fork()
        if child == 0:
            try:
                assert _flight._State.running is None
                with vram.flight_recorder(tmp_path / "child", stacks=None) as own:
                    assert own.dump().exists()
                recorder.stop()  # the parent's
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert recorder.dump().exists()


class Model(torch.nn.Linear):
    """Collected as garbage: it refers to itself."""

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.__dict__["itself"] = self


@pytest.mark.parametrize("way", marks.WAYS)
def test_the_end_of_a_watch_may_collect_another_watched_model(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    marks.put_in_place(monkeypatch, way)
    before = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    collected: list[vram.Watch] = []

    class Collecting(str):
        __slots__ = ()

        def encode(self, *arguments: Any, **named: Any) -> bytes:
            gc.collect()
            return super().encode(*arguments, **named)

    def work() -> None:
        _process.enter()
        collected.append(vram.watch(Model()))
        _process.leave([Collecting("model")])

    gc.collect()
    gc.disable()
    try:
        assert ends(work)
    finally:
        gc.enable()
    gc.collect()
    assert [watch.is_open for watch in collected] == [False]
    assert torch.autograd._engine_run_backward is before  # type: ignore[attr-defined]


def test_a_watch_that_is_interrupted_while_it_begins_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = marks.put_in_place(monkeypatch)

    def interrupt(_base: type) -> None:
        raise KeyboardInterrupt

    before = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters())
    with monkeypatch.context() as interrupted:
        interrupted.setattr(_process, "native", interrupt)
        with pytest.raises(KeyboardInterrupt):
            vram.watch(model, optimizer)
    assert not optimizer._optimizer_step_pre_hooks
    assert torch.autograd._engine_run_backward is before  # type: ignore[attr-defined]
    with vram.watch(model, optimizer):
        model(torch.ones(1, 2)).sum().backward()
        assert "backward/loss" in recorder.take()
    assert torch.autograd._engine_run_backward is before  # type: ignore[attr-defined]


def has_gone(thread: threading.Thread) -> bool:
    """Whether the system's thread ends, too, with what C++ keeps for it."""
    end = time.monotonic() + MAX_WAIT_S
    while Path(f"/proc/self/task/{thread.native_id}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return not Path(f"/proc/self/task/{thread.native_id}").exists()


def test_nodes_of_a_thread_that_has_ended_are_no_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = marks.put_in_place(monkeypatch, "native")
    first, second = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.nn.Sequential(torch.nn.Linear(2, 2))
    outputs: list[torch.Tensor] = []
    may_end = threading.Event()

    def run(model: torch.nn.Module, calls: int, has_run: threading.Event) -> None:
        outputs.extend(model(torch.ones(1, 2)).sum() for _ in range(calls))
        has_run.set()
        may_end.wait(MAX_WAIT_S)

    with vram.watch(first, name="first"), vram.watch(second, name="second"):
        threads = []
        for model, calls in ((first, 2), (second, 50)):
            has_run = threading.Event()
            threads.append(threading.Thread(target=run, args=(model, calls, has_run)))
            threads[-1].start()
            assert has_run.wait(MAX_WAIT_S)
            if model is first:
                outputs.pop(0).backward()  # type: ignore[no-untyped-call]
                assert "backward/first.0" in recorder.take()
                may_end.set()
                assert has_gone(threads[-1])
                may_end.clear()
        outputs[0].backward()  # type: ignore[no-untyped-call]
        said = recorder.take()
        may_end.set()
        threads[-1].join(MAX_WAIT_S)
    assert not [path for path in said if path.startswith("backward/second")]


def test_states_that_are_no_dict_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = marks.put_in_place(monkeypatch)

    class Momentum(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> None:  # type: ignore[override] # noqa: ARG002
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter] = parameter.grad.clone()

    model = torch.nn.Linear(2, 2)
    optimizer = Momentum(model.parameters(), {})
    with vram.watch(model, optimizer):
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert ("gradient", "weight") in recorder.named


def test_the_drivers_figures_are_unknown_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> None:
        raise FileNotFoundError(path)

    gpu = SimpleNamespace(processes=(SimpleNamespace(pid=7, used_bytes=5),), used_bytes=9)
    monkeypatch.setattr(_driver._Sampler, "of_this_process", classmethod(lambda _cls: object()))
    monkeypatch.setattr(_driver._Sampler, "index_of", {"0000:19:00.0": 0})
    monkeypatch.setattr(_driver, "read_gpu", lambda *_: gpu)
    monkeypatch.setattr(_driver, "os", SimpleNamespace(stat=fail, getpid=os.getpid))
    assert _driver.use_of(0, "0000:19:00.0") == _driver.UNKNOWN_USE


IMPORTS_AND_SEARCHES = """
import faulthandler, importlib.machinery, importlib.util, shutil, sys, threading
faulthandler.dump_traceback_later({max_wait}, exit=True)
import _lsprof  # an extension in a file of its own
from vram.monitoring import _driver
sys.setswitchinterval(1e-6)
is_over = False

def import_extensions():
    for number in range(10_000):
        if is_over:
            return
        copy = f"{folder}/{{number}}.so"
        shutil.copyfile(_lsprof.__file__, copy)
        loader = importlib.machinery.ExtensionFileLoader("_lsprof", copy)
        loader.create_module(importlib.util.spec_from_loader("_lsprof", loader))

importing = threading.Thread(target=import_extensions)
importing.start()
for _ in range(1000):
    _driver._cuda()
is_over = True
importing.join()
"""


def test_the_search_for_the_driver_and_imports_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """An import holds the GIL and wants the loader's lock."""
    if not getattr(pytest.importorskip("_lsprof"), "__file__", None):
        pytest.skip("this Python contains its extensions")
    text = IMPORTS_AND_SEARCHES.format(max_wait=MAX_WAIT_S, folder=tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * MAX_WAIT_S,
    )
    assert done.returncode == 0, done.stderr

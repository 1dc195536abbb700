"""vram.watch() changes no results of a program, and leaves nothing behind."""

from __future__ import annotations

import copy
import gc
import io
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import marks
import pytest
import torch
from torch import nn

import vram
from vram import _marks


class Net(nn.Module):
    """In-place operations on outputs, views of them, tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = self.first(x)
        both += 1
        left, right = both.chunk(2, -1)
        out, (hidden, _cell) = self.rnn(self.second(left * right))
        mixed: torch.Tensor = out[-1:] * hidden
        return mixed.mul_(2)


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    recorder = marks.put_in_place(monkeypatch, request.param)
    yield recorder
    _marks.end_trail()
    assert not any(recorder.open.values())


def graph(node: torch.autograd.graph.Node) -> list[object]:
    return [node.name(), *[graph(after) for after, _ in node.next_functions if after is not None]]


def train(is_watched: bool) -> list[object]:
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    watch = vram.watch(model, optimizer) if is_watched else None
    seen: list[object] = []
    for _ in range(3):
        loss = model(torch.randn(3, 4)).sum()
        assert loss.grad_fn is not None
        loss.backward()
        seen += [loss.item(), graph(loss.grad_fn)]
        seen += [p.grad.tolist() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
    if watch is not None:
        watch.stop()
    return [*seen, *[p.tolist() for p in model.parameters()]]


def test_outputs_gradients_and_the_graph_are_the_same(recorder: marks.Recorder) -> None:
    assert train(is_watched=False) == train(is_watched=True)
    assert "backward/second.1" in recorder.said  # it was watched


def test_nothing_stays_after_stop(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters())

    def state() -> list[object]:
        hooks = [p._post_accumulate_grad_hooks or {} for p in model.parameters()]
        steps: list[Any] = [optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks]
        places = [torch.autograd._engine_run_backward, nn.Module._replicate_for_data_parallel]  # type: ignore[attr-defined]
        return [[sorted(module.__dict__) for module in model.modules()], hooks, [len(s) for s in steps], places]

    before = state()
    for watched in (None, optimizer):
        watch = vram.watch(model, watched)
        assert state() != before
        watch.stop()
        watch.stop()
        assert state() == before
    recorder.take()
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert recorder.take() == []


def test_a_model_stopped_between_forward_and_backward(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model):
        loss = model(torch.randn(3, 4)).sum()
    recorder.take()
    loss.backward()
    assert recorder.take() == []
    assert recorder.path() == ""


@pytest.mark.usefixtures("recorder")
def test_a_watched_model_dies_with_its_last_reference() -> None:
    before = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    watch = vram.watch(model, optimizer)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    died = weakref.ref(model), weakref.ref(model.first.weight), weakref.ref(optimizer)
    gc.collect()
    gc.disable()
    try:
        del model, optimizer
        assert [reference() for reference in died] == [None, None, None]
    finally:
        gc.enable()
    assert not watch.is_open
    assert torch.autograd._engine_run_backward is before  # type: ignore[attr-defined]
    watch.stop()


def test_copies_and_pickles_work_and_are_not_watched(recorder: marks.Recorder) -> None:
    model = Net()
    x = torch.randn(3, 4)
    with vram.watch(model):
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        copies = [copy.deepcopy(model), torch.load(file, weights_only=False)]
        expected = model(x)
        recorder.take()
        assert all(torch.equal(each(x), expected) for each in copies)
        parts = [part for each in copies for part in each.modules()] + [copy.copy(model)]
        assert {part._compiled_call_impl for part in parts} == {None}
        replica = model._replicate_for_data_parallel()  # type: ignore[no-untyped-call]
        assert "_compiled_call_impl" not in replica.__dict__
    assert recorder.take() == []


class Inner(nn.Module):
    """torch.compile takes no part whose own code is all PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.linear(x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("way", ["watch compiled", "watch, then compile", "compile, then watch", "compile parts"])
def test_compiled_models_stay_whole(recorder: marks.Recorder, backend: str, way: str) -> None:
    warnings.simplefilter("ignore")
    torch.compiler.reset()
    inner = Inner()
    linear = inner.linear
    model = nn.Sequential(inner, nn.Linear(4, 2))
    model[1].register_forward_hook(lambda _module, _args, out: out * 1)
    x = torch.randn(3, 4)
    expected = model(x)
    expected_gradient = torch.autograd.grad(expected.sum(), linear.weight)[0]
    called: nn.Module = model
    if way == "compile parts":
        model[0].compile(backend=backend, fullgraph=True)
    elif way != "watch, then compile":
        called = torch.compile(model, backend=backend, fullgraph=True)  # type: ignore[assignment]
    with vram.watch(called if way == "watch compiled" else model):
        if way == "watch, then compile":
            called = torch.compile(model, backend=backend, fullgraph=True)  # type: ignore[assignment]
        for _ in range(2):
            recorder.take()
            out = called(x)
            assert torch.equal(out, expected)
            assert torch.equal(torch.autograd.grad(out.sum(), linear.weight)[0], expected_gradient)
        said = recorder.take()
    whole = ["forward", "forward/Sequential", "forward", "forward/loss", "backward", "backward/loss"]
    assert (
        said
        == {
            "watch compiled": [*whole, "backward/Sequential"],
            "watch, then compile": ["backward", "backward/loss"],
            "compile, then watch": ["backward", "backward/loss"],
            "compile parts": [
                *whole[:2],
                "forward/Sequential/0",
                "forward/Sequential/1",
                *whole[2:],
                "backward/1",
                "backward/0",
            ],
        }[way]
    )


@pytest.mark.usefixtures("recorder")
def test_a_compiled_part_is_compiled_after_stop() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].compile(backend="eager")
    compiled = model[0]._compiled_call_impl
    vram.watch(model).stop()
    assert model[0]._compiled_call_impl is compiled
    watch = vram.watch(model)
    model[0].compile(backend="eager")  # in its place: stop() leaves it alone
    compiled = model[0]._compiled_call_impl
    watch.stop()
    assert model[0]._compiled_call_impl is compiled


class Lazy(nn.Module):
    """Its parameters have no memory before the first call, and refuse to be asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LazyLinear(3)
        self.unused = nn.LazyLinear(3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.first(x)


@pytest.mark.parametrize("has_optimizer", [False, True])
def test_lazy_modules_run_as_ever(has_optimizer: bool) -> None:
    model = Lazy()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with vram.watch(model, optimizer if has_optimizer else None):
        for _ in range(2):
            model(torch.randn(2, 5)).sum().backward()
    assert model.first.weight.shape == (3, 5)

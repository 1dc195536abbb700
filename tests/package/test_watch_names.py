"""vram.watch() with a small model's steps: names that were derived by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import marks
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

import vram
from vram import _marks


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.down = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed: torch.Tensor = x + self.down(torch.relu(self.up(x)))
        return mixed


class Net(nn.Module):
    around: Callable[..., Any] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 3)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.around(layer, x) if self.around else layer(x)
        out: torch.Tensor = self.head(x)
        return out


FORWARD = [
    "forward",
    "forward/Net",
    "forward/Net/layers.0",
    "forward/Net/layers.0/layers.0.up",
    "forward/Net/layers.0/layers.0.down",
    "forward/Net/layers.1",
    "forward/Net/layers.1/layers.1.up",
    "forward/Net/layers.1/layers.1.down",
    "forward/Net/head",
]
LOSS = ["forward", "forward/loss"]
# The sum of a block (x + down(…)) is the block's own, as is relu.
BACKWARD = [
    "backward",
    "backward/loss",
    "backward/head",
    "backward/layers.1",
    "backward/layers.1.down",
    "backward/layers.1",
    "backward/layers.1.up",
    "backward/layers.0",
    "backward/layers.0.down",
    "backward/layers.0",
    "backward/layers.0.up",
]
PARAMETERS = [
    f"{module}.{leaf}"
    for module in ("layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head")
    for leaf in ("weight", "bias")
]


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    recorder = marks.put_in_place(monkeypatch, request.param)
    yield recorder
    _marks.end_trail()
    assert not any(recorder.open.values())


def loss_of(model: nn.Module) -> Any:
    x = torch.randn(2, 4, requires_grad=True)  # without gradients, reentrant checkpoints recompute nothing
    return cross_entropy(model(x), torch.tensor([0, 1]))


def names(recorder: marks.Recorder, category: str) -> list[str]:
    return [name for said, name in recorder.named if said == category]


def test_the_scopes_of_each_of_three_steps(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters())
    with vram.watch(model, optimizer):
        for _ in range(3):
            loss_of(model).backward()
            optimizer.step()
            assert recorder.take() == [*FORWARD, *LOSS, *BACKWARD, "optimizer"]
            assert recorder.path() == ""


def test_the_names_of_memory(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    with vram.watch(model, optimizer):
        assert (names(recorder, "parameter"), names(recorder, "buffer")) == (PARAMETERS, ["scale"])
        x = torch.randn(2, 4)
        model(x).sum().backward()
        assert recorder.names[x.untyped_storage().data_ptr()] == ("input", "input")
        assert names(recorder, "gradient") == []
        optimizer.step()
        assert names(recorder, "gradient") == PARAMETERS
        for parameter, name in zip(model.parameters(), PARAMETERS, strict=True):
            assert parameter.grad is not None
            for tensor, expected in (
                (parameter, ("parameter", name)),
                (parameter.grad, ("gradient", name)),
                (optimizer.state[parameter]["exp_avg"], ("optimizer state", f"{name}.exp_avg")),
                (optimizer.state[parameter]["exp_avg_sq"], ("optimizer state", f"{name}.exp_avg_sq")),
            ):
                address = tensor.untyped_storage().data_ptr()
                assert (recorder.names[address], recorder.blocks[address]) == (expected, tensor.nbytes)


def test_states_are_named_again_only_when_they_are_others(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    counts = []
    with vram.watch(model, optimizer):
        for step in range(8):
            loss_of(model).backward()
            if step == 6:
                optimizer.load_state_dict(optimizer.state_dict())
            if step == 7:
                copies = {p: {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
                optimizer.state.update(copies)
            recorder.named.clear()
            optimizer.step()
            counts.append(len(names(recorder, "optimizer state")))
    assert counts[0] == counts[2] == counts[7] == 3 * len(PARAMETERS)  # exp_avg, exp_avg_sq, step
    assert counts[3:6] == [0, 0, 0]


def test_gradients_without_an_optimizer_are_named_as_they_come(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model):
        loss_of(model).backward()
        assert sorted(names(recorder, "gradient")) == sorted(PARAMETERS)
    recorder.named.clear()
    loss_of(model).backward()
    assert recorder.named == []


def test_parameters_that_move_are_named_again(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model):
        model.double()
        recorder.named.clear()
        with torch.no_grad():
            model(torch.randn(2, 4).double())
            model(torch.randn(2, 4).double())
    assert names(recorder, "parameter") == PARAMETERS


def test_a_recording_that_begins_later_has_the_names(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    recorder.is_on = False
    with vram.watch(model, optimizer):
        loss_of(model).backward()
        optimizer.step()
        assert (recorder.said, recorder.named) == ([], [])
        recorder.is_on = True
        with torch.no_grad():
            model(torch.randn(2, 4))
        assert recorder.take() == FORWARD
        assert names(recorder, "parameter") == PARAMETERS
        assert len(names(recorder, "optimizer state")) == 3 * len(PARAMETERS)
        recorder.named.clear()
        _marks.recording_began()  # another one, with no call of the model between the two
        with torch.no_grad():
            model(torch.randn(2, 4))
        assert names(recorder, "parameter") == PARAMETERS


def test_tensors_in_one_storage_have_one_name(recorder: marks.Recorder) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    flat = torch.zeros(6)
    model[0].weight.data, model[0].bias.data = flat[:4].view(2, 2), flat[4:]
    with vram.watch(model, name="tower"):
        assert names(recorder, "parameter") == ["tower.0.*"]
        assert recorder.blocks == {flat.data_ptr(): 24}


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_recomputing(recorder: marks.Recorder, is_reentrant: bool) -> None:
    model = Net()
    model.around = lambda layer, x: checkpoint(layer, x, use_reentrant=is_reentrant)
    with vram.watch(model):
        loss_of(model).backward()
    recomputed = [path for path in recorder.take() if path.startswith("recompute")]
    assert recomputed == [
        path
        for i in (1, 0)
        for path in (
            "recompute",
            f"recompute/layers.{i}",
            f"recompute/layers.{i}/layers.{i}.up",
            f"recompute/layers.{i}/layers.{i}.down",
        )
    ]


def test_an_error_in_forward_ends_all_scopes(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model):
        with pytest.raises(RuntimeError):
            model(torch.randn(2, 5))
        assert recorder.take() == FORWARD[:4]
        assert recorder.path() == ""
        loss_of(model).backward()
        assert recorder.take() == [*FORWARD, *LOSS, *BACKWARD]


def test_an_error_in_backward_ends_all_scopes(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model):
        loss = loss_of(model)
        loss.backward()
        recorder.take()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        assert recorder.path() == ""


def test_a_step_that_fails_does_not_leave_its_scope_for_the_next(recorder: marks.Recorder) -> None:
    class Failing(torch.optim.SGD):
        def step(self, _closure: Any = None) -> Any:
            raise RuntimeError("no step")

    model = Net()
    failing, optimizer = Failing(model.parameters()), torch.optim.SGD(model.parameters())
    with vram.watch(model, [failing, optimizer]):
        with pytest.raises(RuntimeError, match="no step"):
            failing.step()
        optimizer.step()
        assert recorder.take() == ["optimizer", "optimizer"]
        assert recorder.path() == ""


def test_without_gradients_there_is_no_loss_and_no_hook(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model), torch.no_grad():
        for _ in range(2):
            model(torch.randn(2, 4))
            assert recorder.take() == FORWARD


def test_a_module_called_twice_and_shared(recorder: marks.Recorder) -> None:
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    with vram.watch(model):
        model(torch.randn(2, 4)).sum().backward()
    calls = ["forward/Sequential/0", "forward/Sequential/1", "forward/Sequential/0"]
    back = ["backward/loss", "backward/0", "backward/1", "backward/0"]
    assert recorder.take() == ["forward", "forward/Sequential", *calls, *LOSS, "backward", *back]


def test_two_models_that_feed_each_other(recorder: marks.Recorder) -> None:
    maker, judge = nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 1))
    with vram.watch(maker, name="maker"), vram.watch(judge, name="judge"):
        judge(maker(torch.randn(2, 4))).sum().backward()
    said = [path for path in recorder.take() if path.count("/")]
    assert said == [
        "forward/maker",
        "forward/maker/maker.0",
        "forward/loss",
        "forward/judge",
        "forward/judge/judge.0",
        "forward/loss",
        "backward/loss",
        "backward/judge.0",
        "backward/maker.0",
    ]


def test_a_part_called_by_itself(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model), torch.no_grad():
        model.layers[1](torch.randn(2, 4))
    assert recorder.take() == [FORWARD[0], *(path.replace("Net/", "") for path in FORWARD[5:8])]


def test_each_thread_has_its_scopes(recorder: marks.Recorder) -> None:
    model = Net()
    paths = []

    def work() -> None:
        loss_of(model).backward()
        paths.append(recorder.path())

    def work_beside(*_: object) -> None:
        handle.remove()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(timeout=60)
        assert not thread.is_alive()

    handle = model.head.register_forward_hook(work_beside)
    with vram.watch(model), torch.no_grad():
        model(torch.randn(2, 4))
    assert paths == [""]
    assert recorder.take() == [*FORWARD, *FORWARD, *LOSS, *BACKWARD]


def test_modules_that_lie_deeper_are_no_scopes(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model, depth=2):
        loss_of(model).backward()
    shallow = [path for path in [*FORWARD, *LOSS, *BACKWARD] if not path.endswith((".up", ".down"))]
    backward = ["backward", "backward/loss", "backward/head", "backward/layers.1", "backward/layers.0"]
    assert recorder.take() == [path for path in shallow if not path.startswith("backward")] + backward
    assert names(recorder, "parameter") == PARAMETERS


def test_what_is_no_module_or_watched_already() -> None:
    with pytest.raises(TypeError, match=r"needs a torch\.nn\.Module and got a int"):
        vram.watch(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"needs torch\.optim\.Optimizers and got a str"):
        vram.watch(Net(), ["adam"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="expected depth to be at least 0, got -1"):
        vram.watch(Net(), depth=-1)


def test_one_watch_at_a_time(recorder: marks.Recorder) -> None:
    model = Net()
    with vram.watch(model), pytest.raises(vram.VramError, match="watched already"):
        vram.watch(nn.Sequential(model))
    vram.watch(model).stop()
    assert recorder.path() == ""

"""vram.watch() names the gradients of an optimizer before its step: natively the plain ones, by Python code the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import marks
import pytest
import torch
from test_watch_names import PARAMETERS, Net, loss_of, names
from torch import nn

import vram
from vram import _marks
from vram.watching import _memory


@pytest.fixture(params=marks.WAYS)
def recorder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[marks.Recorder]:
    recorder = marks.put_in_place(monkeypatch, request.param)
    yield recorder
    _marks.end_trail()
    assert not any(recorder.open.values())


class Kept(torch.Tensor):
    """A class that changes nothing."""


class Made(torch.Tensor):
    """A tensor made of another one, with no memory of its own."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Made:
        made: Made = torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)
        made.held = held
        return made

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["held"], None

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return Made(func(*(arg.held if isinstance(arg, Made) else arg for arg in args), **(kwargs or {})))


def test_gradients_of_all_kinds(recorder: marks.Recorder) -> None:
    model = nn.ParameterDict({name: torch.zeros(4) for name in ("plain", "none", "left", "right")})
    model["made"] = nn.Parameter(Made(torch.zeros(4)))
    model["of_a_class"] = nn.Parameter(torch.zeros(4).as_subclass(Kept))
    model["sparse"] = nn.Parameter(torch.zeros(4, 2))
    model["empty"], model["meta"] = nn.Parameter(torch.zeros(0)), nn.Parameter(torch.zeros(4, device="meta"))
    optimizer = torch.optim.SGD(model.parameters())
    both = torch.ones(8)
    model["plain"].grad, model["left"].grad, model["right"].grad = torch.ones(4), both[:4], both[4:]
    model["made"].grad, model["of_a_class"].grad = Made(torch.ones(4)), torch.ones(4).as_subclass(Kept)
    model["sparse"].grad = torch.ones(4, 2).to_sparse()
    model["empty"].grad, model["meta"].grad = torch.zeros(0), torch.zeros(4, device="meta")
    expected = {
        model["plain"].grad.data_ptr(): ("gradient", "plain"),
        both.data_ptr(): ("gradient", "left and 1 more"),
        model["made"].grad.held.data_ptr(): ("gradient", "made"),
        model["of_a_class"].grad.data_ptr(): ("gradient", "of_a_class"),
    }
    with vram.watch(model, optimizer):
        recorder.names.clear()
        for hook in list(optimizer._optimizer_step_pre_hooks.values()):
            hook(optimizer, (), {})
        assert recorder.names == expected
        assert recorder.blocks[both.data_ptr()] == both.nbytes
        for hook in list(optimizer._optimizer_step_post_hooks.values()):
            hook(optimizer, (), {})


def test_plain_gradients_take_no_python_code_where_it_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = marks.put_in_place(monkeypatch, "native")
    model = Net()
    optimizer = torch.optim.SGD(model.parameters())
    with vram.watch(model, optimizer):
        loss_of(model).backward()
        given: list[Any] = []
        monkeypatch.setattr(_memory, "name_tensors", lambda tensors, _category: given.extend(tensors))
        recorder.named.clear()
        optimizer.step()
        assert (names(recorder, "gradient"), given) == (PARAMETERS, [])


def test_a_parameter_in_the_place_of_another_has_its_own_name(recorder: marks.Recorder) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters())
    with vram.watch(model, optimizer):
        for _ in range(2):
            loss_of(model).backward()
            optimizer.step()
        optimizer.param_groups[0]["params"].reverse()
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
        optimizer.param_groups[1]["params"][0].grad = torch.ones(2)
        recorder.named.clear()
        optimizer.step()
        assert names(recorder, "gradient") == [*reversed(PARAMETERS), f"SGD.{len(PARAMETERS)}"]

"""vram.why_alive() with real tensors of PyTorch: planted holders of every kind are named, and nothing changes."""

from __future__ import annotations

import functools
import gc
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import vram

HERE = __name__
kept: list[Any] = []
table: dict[str, Any] = {}


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.last: torch.Tensor | None = None


class Settings:
    shared: Any = None


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


model = Model()


@functools.lru_cache(maxsize=4)
def positions(length: int) -> torch.Tensor:
    return torch.zeros(length)


@functools.lru_cache(maxsize=None)  # noqa: UP033 (functools.cache is the same)
def masks(length: int) -> torch.Tensor:
    return torch.ones(length)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    kept.clear()
    table.clear()
    positions.cache_clear()
    masks.cache_clear()
    model.last = Settings.shared = None
    model.layer._forward_hooks.clear()
    model.zero_grad()


def in_a_list() -> torch.Tensor:
    kept.append(torch.zeros(9))
    return kept[0]  # type: ignore[no-any-return]


def in_nested_containers() -> torch.Tensor:
    table["steps"] = [{"loss": (torch.zeros(9),)}]
    return table["steps"][0]["loss"][0]  # type: ignore[no-any-return]


def in_an_attribute() -> torch.Tensor:
    model.last = torch.zeros(9)
    return model.last


def in_a_slot() -> torch.Tensor:
    kept.append(Slotted(torch.zeros(9)))
    return kept[0].x  # type: ignore[no-any-return]


def in_a_class() -> torch.Tensor:
    Settings.shared = torch.zeros(9)
    return Settings.shared  # type: ignore[no-any-return]


def as_parameter() -> torch.Tensor:
    return model.layer.weight


def as_gradient() -> torch.Tensor:
    model.layer(torch.ones(8)).sum().backward()
    assert model.layer.weight.grad is not None
    return model.layer.weight.grad


def in_a_closure() -> torch.Tensor:
    x = torch.zeros(9)
    table["later"] = lambda: x
    return x


def in_default_arguments() -> torch.Tensor:
    x = torch.zeros(9)

    def later(x: torch.Tensor = x) -> torch.Tensor:
        return x

    table["later"] = later
    return x


def in_a_partial() -> torch.Tensor:
    x = torch.zeros(9)
    table["later"] = functools.partial(print, x)
    return x


def in_a_module_hook() -> torch.Tensor:
    x = torch.zeros(9)
    model.layer.register_forward_hook(lambda *_: x)
    return x


def in_a_tensor_hook() -> torch.Tensor:
    x = torch.zeros(9)
    watched = torch.zeros(9, requires_grad=True)
    watched.register_hook(lambda gradient: gradient + x)  # type: ignore[no-untyped-call]
    kept.append(watched)
    return x


def in_an_lru_cache() -> torch.Tensor:
    return positions(9)


def in_an_unbounded_cache() -> torch.Tensor:
    return masks(9)


def saved_by_a_loss() -> torch.Tensor:
    x = torch.randn(8, 8)
    kept.append(model.layer(x).square().mean())
    return x


def saved_in_the_middle() -> torch.Tensor:
    middle = model.layer(torch.randn(8, 8)).exp()
    kept.append(middle.square().mean())
    shared: torch.Tensor = middle.detach()
    return shared


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def saved_by_a_function() -> torch.Tensor:
    x = torch.zeros(9, requires_grad=True)
    kept.append(Double.apply(x).sum())  # type: ignore[no-untyped-call]
    return x.detach()


class Remembering(Double):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.noise = torch.zeros(9)
        table["noise"] = weakref.ref(ctx.noise)
        return x * 2


def on_the_context_of_a_function() -> torch.Tensor:
    kept.append(Remembering.apply(torch.zeros(9, requires_grad=True)).sum())  # type: ignore[no-untyped-call]
    return table["noise"]()  # type: ignore[no-any-return]


def by_a_view() -> torch.Tensor:
    x = torch.zeros(9)
    kept.append(x[2:4])
    return x


def in_a_generator() -> torch.Tensor:
    x = torch.zeros(9)

    def batches() -> Iterator[int]:
        yield x.dim()

    kept.append(batches())
    next(kept[0])
    return x


def in_a_traceback() -> torch.Tensor:
    x = torch.zeros(9)

    def fail(batch: torch.Tensor) -> None:  # noqa: ARG001
        raise ValueError("x")

    try:
        fail(x)
    except ValueError as error:
        kept.append(error)
    return x


HOLDERS: list[tuple[Callable[[], torch.Tensor], str, list[str]]] = [
    (in_a_list, "global", [f"module {HERE}.kept -> list[0] -> Tensor[9]"]),
    (in_nested_containers, "global", [".table", "['steps']", "list[0]", "['loss']", "tuple[0]"]),
    (in_an_attribute, "module", [f"module {HERE}.model -> Model.last -> Tensor[9]"]),
    (in_a_slot, "global", [".kept", "Slotted.x"]),
    (in_a_class, "global", ["class Settings"]),
    (as_parameter, "module", ["Linear._parameters -> dict['weight']"]),
    (as_gradient, "module", ["dict['weight']", ".grad -> Tensor[8, 8]"]),
    (in_a_closure, "closure", [".table", "['later']", "[x] -> cell"]),
    (in_default_arguments, "global", [".table", "['later']", "function later"]),
    (in_a_partial, "global", [".table", "['later']", "partial"]),
    (in_a_module_hook, "hook", ["Linear._forward_hooks", "[x] -> cell"]),
    (in_a_tensor_hook, "hook", [".kept -> list[0] -> Tensor[9]", "OrderedDict", "[x] -> cell"]),
    (in_an_lru_cache, "cache", [".positions", "lru_cache of function positions (test_why_alive.py"]),
    (in_an_unbounded_cache, "cache", [".masks", "lru_cache of function masks"]),
    (saved_by_a_loss, "autograd graph", [".kept", ".grad_fn -> MeanBackward0", "AddmmBackward0 ._saved_mat1"]),
    (saved_in_the_middle, "autograd graph", [".kept", ".grad_fn", "PowBackward0 ._saved_self"]),
    (saved_by_a_function, "autograd graph", [".kept", "DoubleBackward"]),
    (on_the_context_of_a_function, "autograd graph", [".kept", "RememberingBackward", ".noise"]),
    (by_a_view, "global", [".kept", "list[0] -> Tensor[2]"]),
    (in_a_generator, "closure", [".kept", "generator batches"]),
    (in_a_traceback, "global", [".kept", "ValueError.__traceback__ -> traceback", "frame "]),
]


@pytest.mark.parametrize(("holder", "kind", "parts"), HOLDERS, ids=[holder.__name__ for holder, _, _ in HOLDERS])
def test_the_path_names_the_holder(holder: Callable[[], torch.Tensor], kind: str, parts: list[str]) -> None:
    found = vram.why_alive(holder(), max_seconds=60)
    assert found.is_complete
    fitting = [each for each in found.paths if all(part in each.path for part in parts)]
    assert fitting, str(found)
    assert fitting[0].kind == kind, str(found)


@pytest.mark.parametrize("holder", [in_a_list, as_gradient, saved_by_a_loss], ids=lambda holder: holder.__name__)
def test_an_address_finds_the_tensor_there(holder: Callable[[], torch.Tensor]) -> None:
    tensor = holder()
    by_tensor = {each.path for each in vram.why_alive(tensor).paths}
    by_address = vram.why_alive(tensor.data_ptr() + 8)
    assert by_tensor & {each.path for each in by_address.paths}
    assert by_address.tensor == str(vram.why_alive(tensor)).split(" is kept")[0]


def test_an_address_of_nothing() -> None:
    without_memory = torch.empty(4096, device="meta")
    found = vram.why_alive(4096)
    assert without_memory.is_meta
    assert found.paths == ()
    assert str(found).startswith("address 0x1000, which no tensor contains")


def test_a_variable_of_a_running_function_is_local() -> None:
    batch = torch.zeros(9)

    def inner(x: torch.Tensor) -> vram.WhyAlive:
        return vram.why_alive(x)

    found = inner(batch)
    assert [each.kind for each in found.paths] == ["local"]
    assert ".batch -> Tensor[9]" in found.paths[0].path


def test_a_variable_of_another_thread_is_local() -> None:
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        mine = in_a_list()  # noqa: F841
        ready.set()
        done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait(60)
    tensor = kept.pop()
    try:
        assert any(re.search(r"frame hold .*\.mine -> ", each.path) for each in vram.why_alive(tensor).paths)
    finally:
        done.set()
        thread.join(timeout=60)


def test_the_variable_of_the_caller_is_left_out() -> None:
    x = torch.zeros(9)
    found = vram.why_alive(x)
    assert found.paths == ()
    assert str(found) == "Tensor[9] float32 cpu: nothing that Python sees holds it, apart from the caller"


def test_nothing_is_kept_alive_or_changed() -> None:
    kept.append(torch.zeros(9))
    gone = weakref.ref(kept[0])
    version = kept[0]._version

    def ask() -> None:
        local = kept[0]
        vram.why_alive(local)
        assert kept[0]._version == version
        del local
        kept.clear()
        assert gone() is None, "freed as soon as the program frees it"

    gc.disable()
    try:
        ask()
    finally:
        gc.enable()


def test_objects_that_object_are_not_asked() -> None:
    class Odd:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __hash__(self) -> int:
            raise RuntimeError("hashed")

        def __repr__(self) -> str:
            raise RuntimeError("printed")

    x = torch.zeros(9)
    kept.append(Odd(x))
    assert ".kept -> list[0] -> Odd.x -> Tensor[9]" in str(vram.why_alive(x))


def test_other_objects_have_paths_too() -> None:
    settings = Settings()
    kept.append(settings)
    assert vram.why_alive(settings).paths[0].path == f"module {HERE}.kept -> list[0] -> Settings"


def test_a_graph_that_backward_freed_holds_nothing() -> None:
    x = torch.randn(8, 8)
    loss = model.layer(x).square().mean()
    assert "autograd graph" in {each.kind for each in vram.why_alive(x).paths}
    loss.backward()
    assert vram.why_alive(x).paths == ()


def test_it_takes_no_longer_than_it_may() -> None:
    chain: Any = torch.zeros(9)
    for _ in range(300):
        chain = [chain]
    table["chain"] = chain
    many: list[dict[str, int]] = [{} for _ in range(300_000)]
    tensor = chain
    while not isinstance(tensor, torch.Tensor):
        tensor = tensor[0]
    begin = time.monotonic()
    found = vram.why_alive(tensor, max_seconds=0.2)
    assert time.monotonic() - begin < 2
    assert not found.is_complete
    assert "nothing found in max_seconds" in str(found)
    del many


@pytest.mark.parametrize("wrong", [{"max_seconds": 0}, {"max_paths": 0}])
def test_limits_are_positive(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        vram.why_alive(1, **wrong)


def test_at_most_max_paths() -> None:
    x = torch.zeros(9)
    kept.extend([[x], [x], [x]])
    table.update(a=x, b={"c": x})
    assert len(vram.why_alive(x, max_paths=1).paths) == 1
    assert not vram.why_alive(x, max_paths=1).is_complete


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    thing = Settings()
    kept.append(thing)
    assert ".kept -> list[0] -> Settings" in str(vram.why_alive(thing))

"""vram.find_cycles() with real tensors of PyTorch: it finds, names and sizes cycles of many kinds, and reports nothing alive."""

from __future__ import annotations

import gc
import re
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
import torch

import vram


@pytest.fixture(scope="module", autouse=True)
def _collections_are_quick() -> Iterator[None]:
    """What the imports have made is looked at no more."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _only_planted_garbage() -> Iterator[None]:
    """And Python does not collect it by itself before it is looked for."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


class Node:
    me: Any
    x: Any


def itself() -> None:
    node = Node()
    node.me, node.x = node, torch.zeros(64, 1024)


def closure() -> None:
    class Trainer:
        closure: Any

    trainer, batch = Trainer(), torch.zeros(64, 1024)
    trainer.closure = lambda: (trainer, batch)


def traceback() -> None:
    batch = torch.zeros(10, 10, dtype=torch.float64)  # noqa: F841
    try:
        raise ValueError("x")
    except ValueError as error:
        kept = error  # noqa: F841


class Hooked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8, bias=False)
        self.layer.register_forward_hook(self.look)

    def look(self, *_: Any) -> None: ...


def hooks() -> None:
    Hooked()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.result = x * 2  # what save_for_backward is for
        return ctx.result  # type: ignore[no-any-return]

    @staticmethod
    def backward(_: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2


def context() -> None:
    Double.apply(torch.zeros(100, requires_grad=True))  # type: ignore[no-untyped-call]


class Slotted:
    __slots__ = ("others", "parts")
    others: Any
    parts: Any


def slots() -> None:
    """12 bytes are seen, but it is the storage of 16 that comes back."""
    slotted = Slotted()
    slotted.others = [slotted]
    slotted.parts = {"k": torch.zeros(4)[1:]}


@pytest.mark.parametrize(
    ("plant", "held", "path", "circle"),
    [
        (itself, 64 * 1024 * 4, "Node.x -> Tensor[64, 1024] float32", "Node.me -> Node"),
        (
            closure,
            64 * 1024 * 4,
            "Trainer.closure -> function <lambda> (test_cycles.py:LINE) [batch] -> cell -> Tensor[64, 1024] float32",
            "Trainer.closure -> function <lambda> (test_cycles.py:LINE) [trainer] -> cell -> Trainer",
        ),
        (
            traceback,
            10 * 10 * 8,
            "ValueError.__traceback__ -> traceback (test_cycles.py:LINE).tb_frame -> "
            "frame traceback (test_cycles.py:LINE).batch -> Tensor[10, 10] float64",
            "ValueError.__traceback__ -> traceback (test_cycles.py:LINE).tb_frame -> "
            "frame traceback (test_cycles.py:LINE).kept -> ValueError",
        ),
        (
            hooks,
            8 * 8 * 4,
            "Hooked._modules -> dict['layer'] -> Linear._parameters -> dict['weight'] -> Tensor[8, 8] float32",
            "Hooked._modules -> dict['layer'] -> Linear._forward_hooks -> OrderedDict[ID] -> "
            "method Hooked.look (test_cycles.py:LINE) -> Hooked",
        ),
        (
            context,
            100 * 4,
            "DoubleBackward.result -> Tensor[100] float32",
            "DoubleBackward.result -> Tensor[100] float32 -> DoubleBackward",
        ),
        (slots, 4 * 4, "Slotted.parts -> dict['k'] -> Tensor[3] float32", "Slotted.others -> list[0] -> Slotted"),
    ],
)
def test_each_kind_is_found_named_and_sized(plant: Callable[[], None], held: int, path: str, circle: str) -> None:
    plant()
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert cycle.bytes == held
    assert (_plain(cycle.path), _plain(cycle.circle)) == (path, circle)
    assert vram.find_cycles(devices="all") == []  # they were freed


def _plain(text: str) -> str:
    """Without what changes with every edit of this file, and with the tests that ran before."""
    return re.sub(r"OrderedDict\[\d+\]", "OrderedDict[ID]", re.sub(r"\.py:\d+", ".py:LINE", text))


def test_a_line_says_where_it_was_written() -> None:
    closure()
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert f"(test_cycles.py:{closure.__code__.co_firstlineno + 5})" in cycle.path


def test_the_one_with_the_most_bytes_comes_first_and_each_names_its_own_tensors() -> None:
    slots()
    itself()
    traceback()
    found = vram.find_cycles(devices="all", collect=True)
    assert [cycle.bytes for cycle in found] == [262144, 800, 16]
    assert [cycle.tensors for cycle in found] == [
        ("Tensor[64, 1024] float32 cpu",),
        ("Tensor[10, 10] float64 cpu",),
        ("Tensor[3] float32 cpu",),
    ]


def test_two_views_of_one_storage_count_once() -> None:
    node = Node()
    whole = torch.zeros(256)
    node.me, node.x = node, [whole[:128], whole[128:]]
    del node, whole
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.bytes, len(cycle.tensors)) == (1024, 2)


def test_gradients_count() -> None:
    node = Node()
    node.me, node.x = node, torch.ones(100, requires_grad=True)
    node.x.sum().backward()
    assert node.x.grad.shape == (100,)  # Python has seen it, and let it go
    del node
    (cycle,) = vram.find_cycles(devices="all")
    assert (cycle.bytes, cycle.path) == (100 * 4 + 100 * 4, "Node.x -> Tensor[100] float32")


def test_a_gradient_that_is_alive_does_not_count() -> None:
    node = Node()
    node.me, node.x = node, torch.ones(100, requires_grad=True)
    node.x.sum().backward()
    kept = node.x.grad
    del node
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert cycle.bytes == 400
    assert kept.sum() == 100


def test_what_is_alive_is_no_find() -> None:
    alive = Node()
    alive.me, alive.x = alive, torch.zeros(8)
    dead = Node()  # holds a living tensor and a view of one
    dead.me, dead.x = dead, [alive.x, alive.x[2:]]
    del dead
    assert vram.find_cycles(devices="all") == []
    assert alive.x.sum() == 0


def test_only_tensors_of_a_gpu_unless_asked() -> None:
    itself()
    assert vram.find_cycles() == []


def test_a_cycle_without_tensors_is_no_find() -> None:
    node = Node()
    node.me = node
    del node
    assert vram.find_cycles(devices="all") == []


def test_a_tensor_behind_two_knots_counts_for_the_nearer() -> None:
    far, near = Node(), Node()
    far.me, far.x = far, near
    near.me, near.x = near, torch.zeros(4)
    del far, near
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.bytes, cycle.path) == (16, "Node.x -> Tensor[4] float32")


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled: bool) -> None:
    itself()
    before = (gc.get_debug(), gc.get_threshold(), list(gc.garbage))
    if enabled:
        gc.enable()
    assert len(vram.find_cycles(devices="all")) == 1
    assert gc.isenabled() is enabled
    assert (gc.get_debug(), gc.get_threshold(), list(gc.garbage)) == before


def test_nothing_is_kept_alive() -> None:
    class Watched(Node):
        pass

    def dead_watched() -> weakref.ref[Any]:
        node = Watched()
        node.me, node.x = node, torch.zeros(4)
        return weakref.ref(node)

    reference = dead_watched()
    found = vram.find_cycles(devices="all")
    assert len(found) == 1
    gc.collect()
    assert reference() is None
    assert not [item for item in gc.get_objects() if type(item) is Watched]


class Hostile:
    """Comparing, hashing, printing or inspecting it fails."""

    me: Any
    x: Any
    finalized = 0

    def _refuse(self, *_: Any) -> NoReturn:
        raise RuntimeError("touched")

    __eq__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __getattr__ = _refuse

    @property  # type: ignore[misc]
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise RuntimeError("asked for its class")

    def __del__(self) -> None:
        Hostile.finalized += 1


def test_hostile_objects_are_described_without_their_help() -> None:
    hostile = Hostile()
    hostile.me, hostile.x = {"k": hostile}, torch.zeros(4)
    del hostile
    (cycle,) = vram.find_cycles(devices="all", collect=True)
    assert (cycle.path, cycle.circle) == ("Hostile.x -> Tensor[4] float32", "Hostile.me -> dict['k'] -> Hostile")
    assert Hostile.finalized == 1  # as by a collection: once


def test_one_that_its_finalizer_revives_is_no_find() -> None:
    revived = []

    class Lazarus(Node):
        def __del__(self) -> None:
            revived.append(self)

    lazarus = Lazarus()
    lazarus.me, lazarus.x = lazarus, torch.zeros(4)
    del lazarus
    assert vram.find_cycles(devices="all") == []
    assert len(revived) == 1
    revived.clear()


def test_a_million_living_objects_cost_about_a_collection() -> None:
    living = [[number] for number in range(1_000_000)]
    gc.collect()
    begin = time.process_time()
    gc.collect()
    collected = time.process_time()
    assert vram.find_cycles(devices="all") == []
    assert time.process_time() - collected < 5 * (collected - begin) + 0.5
    assert len(living) == 1_000_000


def test_another_device_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected devices to be one of 'gpu', 'all', got 'cuda:0'"):
        vram.find_cycles(devices="cuda:0")


def test_what_a_living_tensor_shares_is_no_find_even_if_it_is_frozen() -> None:
    living = torch.zeros(64, 1024)
    gc.freeze()

    def plant(living: torch.Tensor) -> None:
        node = Node()
        node.me, node.x = node, living[:10]

    plant(living)
    assert vram.find_cycles(devices="all", collect=True) == []

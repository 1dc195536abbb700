"""vram.why_alive() among many objects, odd keys, other threads, and functions that called locals()."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import vram

kept: list[Any] = []
table: dict[Any, Any] = {}


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    yield
    kept.clear()
    table.clear()


def test_locals_that_a_function_took_stay() -> None:
    def function() -> tuple[dict[str, Any], list[Any]]:
        tensor = torch.zeros(9)
        taken = locals()
        assert "local: frame function" in str(inner(tensor))
        return taken, list(taken)

    def inner(it: torch.Tensor) -> vram.WhyAlive:
        return vram.why_alive(it)

    taken, names = function()
    assert "tensor" in names
    assert taken["tensor"].shape == (9,)


def test_many_holders_cost_no_more_than_the_time() -> None:
    tensor = torch.zeros(9)
    kept.append([[[tensor]] for _ in range(15_000)])
    others = [[i] for i in range(300_000)]
    begin = time.monotonic()
    found = vram.why_alive(tensor, max_seconds=0.5)
    assert time.monotonic() - begin < 3
    assert not found.is_complete
    assert not any(path.kind == "native" for path in found.paths)
    del others


class HostileType(type):
    def __eq__(cls, other: object) -> bool:
        raise AssertionError("a class was compared")

    __hash__ = type.__hash__


class HostileKey(metaclass=HostileType):
    pass


@pytest.mark.parametrize(
    "key", [10**5000, -(10**5000), "x" * 1_000_000, HostileKey()], ids=["int", "negative", "str", "own"]
)
def test_keys_of_any_kind_are_described(key: Any) -> None:
    tensor = table[key] = torch.zeros(9)
    text = vram.why_alive(tensor).paths[0].path
    assert "Tensor" in text
    assert len(text) < 300


def test_other_threads_may_change_the_holders() -> None:
    tensor = torch.zeros(9)
    holder: dict[Any, Any] = dict.fromkeys(range(20000))
    holder["it"] = tensor
    kept.append(holder)
    ended = threading.Event()

    def change() -> None:
        while not ended.is_set():
            holder.pop("other", None)
            holder["other"] = 1

    thread = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for _ in range(5):
            assert vram.why_alive(tensor).paths
    finally:
        ended.set()
        thread.join(timeout=60)
        sys.setswitchinterval(interval)

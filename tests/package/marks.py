"""A recorder that only logs its calls, in place of the library's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from vram import _marks
from vram.watching import _native

# What follows the calls and backward: Python code, or what is compiled for that.
WAYS = ["python", "native"]


@dataclass
class Recorder:
    """`said` has each beginning of a scope as its path, and names as (category, name)."""

    is_on: bool = True
    said: list[str] = field(default_factory=list)
    names: dict[int, tuple[str, str]] = field(default_factory=dict)
    named: list[tuple[str, str]] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)
    open: dict[int, list[str]] = field(default_factory=dict)
    on_name: Callable[[int, str], None] | None = None  # address and category

    def path(self) -> str:
        return "/".join(self.open.get(threading.get_ident(), []))

    def begin(self, name: bytes) -> None:
        self.open.setdefault(threading.get_ident(), []).append(name.decode())
        self.said.append(self.path())

    def end(self) -> None:
        self.open[threading.get_ident()].pop()  # IndexError: more ended than began

    def name(self, _device: int, address: int, size: int, name: bytes, category: bytes) -> None:
        self.blocks[address] = size
        self.names[address] = (category.decode(), name.decode())
        self.named.append((category.decode(), name.decode()))
        if self.on_name is not None:
            self.on_name(address, category.decode())

    def is_recording(self) -> int:
        return int(self.is_on)

    def take(self) -> list[str]:
        said, self.said = self.said, []
        return said


def put_in_place(patch: pytest.MonkeyPatch, way: str = "python") -> Recorder:
    recorder = Recorder()
    functions = _marks.Functions(recorder.begin, recorder.end, recorder.name, recorder.is_recording)
    patch.setattr(_marks, "functions", lambda: functions)
    patch.setattr(_marks, "DEVICE_TYPES", frozenset({"cpu"}))
    patch.setattr(_native, "is_wanted", lambda: way == "native")
    if way == "native":
        _native.compile_library()  # not within what a test limits in time
    return recorder

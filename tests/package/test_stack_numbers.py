"""Stacks of the interpreter that runs have one number if, and only if, all their frames are the same: code and instruction."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vram._library import sized
from vram._prototypes import STACKS_PYTHON, RecordOptions

CALLS, MAX_CALLS_DEEP = 3000, 22
KNOWS_INSTRUCTIONS = sys.version_info >= (3, 11)  # PyFrame_GetLasti()

Chain = tuple[tuple[Any, int], ...]


class Met:
    """Captures without the interpreter's lock, as PyTorch's operators do, and compares with the frames that Python shows."""

    def __init__(self, capture: Callable[[], int]) -> None:
        self.capture = capture
        self.lock = threading.Lock()
        self.numbers: dict[Chain, int] = {}
        self.chains: dict[int, Chain] = {}
        self.wrong: list[str] = []

    def probe(self) -> None:
        number = self.capture()
        frame: Any = sys._getframe(1)  # this function's instruction has changed meanwhile
        found = []
        while frame is not None:
            found.append((frame.f_code, frame.f_lasti if KNOWS_INSTRUCTIONS else frame.f_lineno))
            frame = frame.f_back
        chain = tuple(found)
        with self.lock:
            if number == 0 or self.numbers.setdefault(chain, number) != number:
                self.wrong.append(f"{number} instead of {self.numbers.get(chain)}: {len(chain)} frames")
            if self.chains.setdefault(number, chain) != chain:
                self.wrong.append(f"{number} is of two stacks of {len(self.chains[number])} and {len(chain)} frames")


class Walk:
    """Calls that Python makes in each of its ways, in random order."""

    def __init__(self, met: Met, seed: int) -> None:
        self.met, self.random, self.left, self.depth = met, random.Random(seed), CALLS, 0
        self.ways = [
            self.plainly,
            self.by_generator,
            self.by_map,
            self.by_key,
            self.by_class,
            self.by_partial,
            self.by_exception,
        ]
        self.kept: list[Iterator[None]] = []

    def __call__(self, *_: Any) -> int:
        self.go_on()
        return 0

    def go_on(self) -> None:
        while self.left > 0:
            self.left -= 1
            choice = self.random.random()
            if choice < 0.3 or self.depth > MAX_CALLS_DEEP:
                self.met.probe()
                return
            self.depth += 1
            self.random.choice(self.ways)()
            self.depth -= 1
            if choice > 0.6:
                return
            self.met.probe()

    def plainly(self) -> None:
        both = [self, self]
        both[0](), both[1]()

    def by_generator(self) -> None:
        def generate() -> Iterator[None]:
            while True:
                self.go_on()
                yield

        kept = self.random.choice(self.kept) if self.kept and self.random.random() < 0.5 else generate()
        try:
            next(kept)
        except ValueError:  # it runs already
            return
        self.kept.append(kept)

    def by_map(self) -> None:
        list(map(self, [1, 2]))

    def by_key(self) -> None:
        sorted([3, 1], key=self)

    def by_class(self) -> None:
        class Made:
            def __init__(made) -> None:  # noqa: N805
                self.go_on()

        Made()

    def by_partial(self) -> None:
        functools.partial(self, 1)()

    def by_exception(self) -> None:
        try:
            raise KeyError
        except KeyError:
            self.go_on()


def recursing(depth: int, action: Callable[[], None]) -> None:
    if depth:
        recursing(depth - 1, action)
    else:
        action()


def compare(folder: Path) -> Met:
    library = ctypes.CDLL(os.environ["VRAM_LIBRARY"])
    options = sized(RecordOptions)
    options.stacks = STACKS_PYTHON
    assert library.vram_record_start(os.fsencode(folder / "run.vtrace"), ctypes.byref(options)) == 0
    library.vram_capture_stack.restype = ctypes.c_uint32
    met = Met(library.vram_capture_stack)
    for depth in (0, 1, 40, 5, 0):
        recursing(depth, Walk(met, depth).go_on)
    threads = [threading.Thread(target=Walk(met, seed).go_on) for seed in (7, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert library.vram_record_stop() == 0
    return met


def test_a_stack_has_one_number_and_a_number_one_stack(tmp_path: Path) -> None:
    met = compare(tmp_path)
    assert met.wrong[:3] == []
    assert len(met.numbers) > 100

"""Measures what a flight recorder costs in a loop bound by the host, without a GPU; prints Markdown.

    python flight.py [--rounds N] [--depth N]

The loop computes with small PyTorch tensors on the CPU, about 16 us for each request for memory, in functions nested as
deep as a model's. For each request it makes the calls that the tap under PyTorch's allocator makes: a stack, and three
events. Without a recorder these calls return at once, so the difference is what recording costs. Rounds alternate; times
are the CPU time of the program's thread, so that other programs on the machine disturb little.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

import vram
from vram._library import library
from vram._prototypes import EVENT_ALLOC, EVENT_FREE_COMPLETED, EVENT_FREE_REQUESTED, Event

REQUESTS = 5_000
KINDS = (EVENT_ALLOC, EVENT_FREE_REQUESTED, EVENT_FREE_COMPLETED)


def request_of_tap() -> Callable[[], None]:
    loaded = library()
    calls = ctypes.PyDLL(loaded._name, handle=loaded._handle)  # keeps the GIL, as PyTorch's bindings may
    capture, record = calls.vram_try_capture_stack, calls.vram_record_event
    events = [Event(kind=kind, address=1 << 20, size_bytes=4096) for kind in KINDS]
    first, pointers = events[0], [ctypes.byref(event) for event in events]

    def request() -> None:
        first.stack = capture()
        for pointer in pointers:
            record(pointer)

    return request


def work(request: Callable[[], None], depth: int, a: Any) -> None:
    if depth > 0:
        return work(request, depth - 1, a)
    for _ in range(20):
        for _ in range(2):
            for _ in range(3):
                a = torch.relu(torch.tanh(a) * 0.5 - 0.25)
            request()
    return None


def seconds(request: Callable[[], None], depth: int) -> float:
    a = torch.ones(8, 64)
    before = time.thread_time()
    for step in range(REQUESTS // 40):
        if step % 10 == 0:
            vram.step()
        work(request, depth, a)
    return time.thread_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--depth", type=int, default=30)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    request = request_of_tap()
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            "none": nullcontext,
            "flight recorder": lambda: vram.flight_recorder(folder, stacks=None),
            "flight recorder, Python stacks": lambda: vram.flight_recorder(folder, stacks="python"),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(wanted.rounds):
            for way, recorder in ways.items():
                with recorder():
                    seconds(request, wanted.depth)  # the first requests cost more
                    times[way].append(seconds(request, wanted.depth))
    print("| recorded by | us per request | more than none, ns per request | ÷ none, median of pairs | quartiles |")
    print("|---|---|---|---|---|")
    for way, found in times.items():
        median = statistics.median(found)
        more = statistics.median(b - a for a, b in zip(times["none"], found, strict=True))
        low, ratio, high = statistics.quantiles((b / a for a, b in zip(times["none"], found, strict=True)), n=4)
        print(
            f"| {way} | {1e6 * median / REQUESTS:.2f} | {1e9 * more / REQUESTS:.0f} | {ratio:.3f} | {low:.3f} to {high:.3f} |"
        )


if __name__ == "__main__":
    main()

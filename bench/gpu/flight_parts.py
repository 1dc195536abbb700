"""Of what the flight recorder's share of a host-bound step consists: the tracker under PyTorch's allocator, and vram.step().

    python bench/gpu/flight_parts.py SECONDS OUT.json

Chunks of 14 steps of the program `generate` (overhead.py), under "none", "flight" and "flight, Python stacks" in random order, each
after four steps of its kind. The tracker is timed in place, by two more trackers around it (tracker_times.cpp; x86-64). Prints Markdown:
medians of the chunks; "more": than with no recorder; %: of a step.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from overhead import SIZES, make_model

import vram
from vram.torch import _adapter, _toolchain
from vram.torch._compiled import flags

BEGAN = time.perf_counter()
STEPS, WARM = 14, 4
ACTIONS = ("ALLOC", "FREE_REQUESTED", "FREE_COMPLETED")


def compiled(folder: Path) -> ctypes.PyDLL:
    found = _toolchain.Torch.installed(torch)
    cuda = _toolchain.cuda_include(found)
    own = [] if (cuda / "crt" / "host_defines.h").is_file() else [f"-I{_adapter.SOURCES / 'without_crt'}"]
    includes = [*own, "-isystem", str(found.include), "-isystem", str(cuda)]
    source, output = Path(__file__).with_name("tracker_times.cpp"), folder / "tracker_times.so"
    command = [*_toolchain.compiler(), *flags(found), *_adapter._FLAGS, *includes, str(source)]
    subprocess.run(
        [*command, f"-L{found.lib}", "-lc10_cuda", "-lc10", "-lc", "-o", str(output)], check=True, timeout=120
    )
    loaded = ctypes.PyDLL(str(output))
    loaded.ticks_now.restype = ctypes.c_uint64
    loaded.take_median.restype = ctypes.c_uint32
    return loaded


def ns_per_tick(times: ctypes.PyDLL) -> float:
    began, first = time.perf_counter_ns(), times.ticks_now()
    time.sleep(0.2)
    return float((time.perf_counter_ns() - began) / (times.ticks_now() - first))


class Chunks:
    def __init__(self, times: ctypes.PyDLL) -> None:
        self.times, self.ns = times, ns_per_tick(times)
        width, layers, sequences, length = SIZES["generate"]
        torch.manual_seed(0)
        self.model = make_model(torch, width, layers, "cuda")
        self.tokens = torch.randint(0, 8000, (sequences, length), device="cuda")

    def steps(self, count: int) -> tuple[list[int], list[int]]:
        marks, steps, clock = [], [], time.perf_counter_ns
        torch.cuda.synchronize()
        for _ in range(count):
            began = clock()
            vram.step()
            marks.append(clock() - began)
            with torch.no_grad():
                self.model(self.tokens)[:, -1].argmax(-1)
            steps.append(clock() - began)
        torch.cuda.synchronize()
        return marks, steps

    def measure(self) -> dict[str, float]:
        self.steps(WARM)
        for action in range(len(ACTIONS)):
            self.times.take_median(action)
        marks, steps = self.steps(STEPS)
        tracker = {name: self.ns * self.times.take_median(action) for action, name in enumerate(ACTIONS)}
        return {"step": statistics.median(steps), "mark": statistics.median(marks), **tracker}


def row(way: str, chunks: list[dict[str, float]], none: list[dict[str, float]], requests: int) -> str:
    def median(found: list[dict[str, float]], figure: Any) -> float:
        return statistics.median(map(figure, found))

    def more(figure: Any) -> float:
        return median(chunks, figure) - median(none, figure)

    tracker = [f"{more(lambda chunk, name=name: chunk[name]):.0f}" for name in ACTIONS]
    share = more(lambda chunk: 100 * requests * sum(chunk[name] for name in ACTIONS) / chunk["step"])
    mark = more(lambda chunk: 100 * chunk["mark"] / chunk["step"])
    step = median(chunks, lambda chunk: chunk["step"]) / 1e3
    return (
        f"| {way} | {len(chunks)} | {step:.0f} | {' | '.join(tracker)} | {share:.2f} | "
        f"{more(lambda chunk: chunk['mark'] / 1e3):.1f} | {mark:.2f} |"
    )


def main() -> None:
    seconds, out = float(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    torch.empty(1, device="cuda")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = compiled(folder)
        times.attach_before()
        with vram.record(folder / "first.vtrace", stacks=None):  # attaches vram's tracker, which stays
            torch.empty(1, device="cuda")
        times.attach_after()
        chunks = Chunks(times)
        chunks.steps(10)
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        chunks.steps(1)
        requests = torch.cuda.memory_stats()["allocation.all.allocated"] - before
        ways: dict[str, Any] = {
            "none": contextlib.nullcontext,
            "flight": lambda: vram.flight_recorder(folder / "flights", stacks=None),
            "flight, Python stacks": lambda: vram.flight_recorder(folder / "flights"),
        }
        results: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        while time.perf_counter() - BEGAN < seconds:
            for way in random.sample(list(ways), len(ways)):
                with ways[way]():
                    results[way].append(chunks.measure())
    out.write_text(json.dumps({"requests": requests, "results": results}))
    print(
        f"{requests} requests a step\n\n| way | chunks | step, us | {', more ns | '.join(ACTIONS)}, more ns | tracker, % | step(), more us | step(), % |"
    )
    print("|---" * 9 + "|")
    for way, found in results.items():
        print(row(way, found, results["none"], requests))


if __name__ == "__main__":
    main()

"""What the flight recorder and vram.watch() cost, in many short neighbouring measurements of one process; prints Markdown.

    python bench/gpu/recording_cost.py PROGRAM SECONDS OUT.json [--device cpu] [--settle 0] [--phases NAME…]

Chunks of a few steps alternate: base, way, base, way; the ways come in random order. The quotient of a pair is that of the way's
chunk and the mean of the two bases around it. Each chunk begins after warm steps that take --settle seconds at least, because a recorder that has just
been started makes its files and takes its first sample of the device. Median of the pairs' quotients with a bootstrap interval of 95 %.
"pair": ns of torch.empty() and del, at a depth of 30 functions.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from overhead import SIZES, make_model

import vram

BEGAN = time.perf_counter()
CHUNK_S = {"generate": 0.05, "train": 0.06}
WARM = {"generate": 2, "train": 1}
# Optimizer states are named in the first three steps of a watch, and a stack is walked when it is met first.
WARM_OF_WAY = {"watch": 4, "flight, Python stacks": 3, "torch history, Python stacks": 2, "flight": 2, "none": 2}
PAIRS = 800
# The parts of the measurement, and how much of the time each takes.
SHARES = {"no tracker": 0.15, "tracker attached": 0.6, "record": 0.25}
FIGURES = ("wall", "step", "cpu", "pair")


def pair_ns(where: Any, depth: int) -> float:
    if depth:
        return pair_ns(where, depth - 1)
    empty = torch.empty
    before = time.perf_counter_ns()
    for _ in range(PAIRS):
        block = empty(1024, device=where)
        del block
    return (time.perf_counter_ns() - before) / PAIRS


class Program:
    def __init__(self, name: str, device: str) -> None:
        self.name, self.device, self.where = name, device, torch.device(device)
        width, layers, sequences, length = SIZES[name] if device == "cuda" else (16, 4, 1, 8)
        torch.manual_seed(0)
        model = self.model = make_model(torch, width, layers, device)
        tokens = torch.randint(0, 8000, (sequences, length), device=device)
        self.optimizer: Any = None
        if name == "generate":

            def step() -> None:
                vram.step()
                with torch.no_grad():
                    model(tokens)[:, -1].argmax(-1)

        else:
            optimizer = self.optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

            def step() -> None:
                vram.step()
                loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        self.step = step
        for _ in range(8):
            step()
        self.count, self.warm = 3, 1
        self.chunk()
        self.count = max(3, round(CHUNK_S[name] / self.chunk()["wall"]))
        self.warm = WARM[name]
        self.requests = self.requests_of_step()

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def requests_of_step(self) -> int:
        if self.device != "cuda":
            return 1
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        self.step()
        return int(torch.cuda.memory_stats()["allocation.all.allocated"] - before)

    def chunk(self, warm: int | None = None, settle_s: float = 0.0) -> dict[str, float]:
        until = time.perf_counter() + settle_s
        for _ in range(self.warm if warm is None else warm):
            self.step()
        while time.perf_counter() < until:
            self.step()
        step, clock, times = self.step, time.perf_counter, []
        self.sync()
        cpu, began = time.thread_time(), clock()
        last = began
        for _ in range(self.count):
            step()
            now = clock()
            times.append(now - last)
            last = now
        self.sync()
        wall, cpu = clock() - began, time.thread_time() - cpu
        return {
            "wall": wall / self.count,
            "step": statistics.median(times),
            "cpu": cpu / self.count,
            "pair": pair_ns(self.where, 30),
        }


class Ways:
    def __init__(self, program: Program, folder: Path) -> None:
        self.program, self.folder, self.lost, self.events = program, folder, 0, 0

    @contextmanager
    def none(self) -> Any:
        yield

    @contextmanager
    def torch_history(self) -> Any:
        history = torch.cuda.memory._record_memory_history
        history(context="all", stacks="python", max_entries=100_000)
        try:
            yield
        finally:
            history(enabled=None)

    def flight(self, stacks: str | None) -> Any:
        return vram.flight_recorder(self.folder / "flights", stacks=stacks)

    @contextmanager
    def record(self) -> Any:
        with vram.record(self.folder / "run.vtrace", stacks=None) as recording:
            yield
        self.lost += recording.lost
        self.events += recording.events

    def watch(self) -> Any:
        return vram.watch(self.program.model, self.program.optimizer)


def measure(
    program: Program, ways: dict[str, Any], lasting: Any, deadline: float, least: int, settle_s: float
) -> dict[str, list[Any]]:
    """Pairs of each way until the deadline. `least`: how many bases to make before what has no way back is set."""
    pairs: dict[str, list[Any]] = {name: [] for name in ways}
    with lasting():
        for _ in range(2):
            before = program.chunk(4, settle_s)
        while time.perf_counter() < deadline:
            for name in random.sample(list(ways), len(ways)):
                if time.perf_counter() > deadline and min(map(len, pairs.values())) >= least:
                    break
                with ways[name]():
                    during = program.chunk(WARM_OF_WAY.get(name, 2), settle_s)
                after = program.chunk(settle_s=settle_s)
                pairs[name].append(({key: (before[key] + after[key]) / 2 for key in FIGURES}, during))
                before = after
            gc.collect()
    return pairs


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and a bootstrap interval of 95 %."""
    middle = statistics.median(values)
    medians = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(1000))
    return middle, medians[24], medians[975]


def rows(program: Program, pairs: dict[str, list[Any]]) -> list[str]:
    found = []
    for name, each in pairs.items():
        if len(each) < 2:
            found.append(f"| {name} | {len(each)} |")
            continue
        cells = [name, str(len(each)), f"{1e3 * statistics.median(base['wall'] for base, _ in each):.3f}"]
        for figure in ("wall", "step", "cpu"):
            middle, low, high = interval([way[figure] / base[figure] for base, way in each])
            cells.append(f"{middle:.4f} ({low:.4f} to {high:.4f})")
        more, low, high = interval([1e9 * (way["cpu"] - base["cpu"]) / program.requests for base, way in each])
        cells.append(f"{more:.0f} ({low:.0f} to {high:.0f})")
        cells.append(f"{statistics.median(base['pair'] for base, _ in each):.0f}")
        more, low, high = interval([way["pair"] - base["pair"] for base, way in each])
        cells.append(f"{more:.0f} ({low:.0f} to {high:.0f})")
        found.append("| " + " | ".join(cells) + " |")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=[*CHUNK_S])
    parser.add_argument("seconds", type=float)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--settle", type=float, default=0.3, help="seconds of steps before each chunk (default: %(default)s)"
    )
    parser.add_argument("--phases", nargs="+", choices=[*SHARES], default=[*SHARES])
    return parser.parse_args()


def main() -> None:
    args = arguments()
    deadline = BEGAN + args.seconds
    torch.set_num_threads(1)
    program = Program(args.program, args.device)
    ready = time.perf_counter()
    print(
        f"\n## {args.program}: {program.count} steps a chunk, {program.requests} requests a step; ready after {ready - BEGAN:.1f} s; "
        f"cores {len(os.sched_getaffinity(0))}\n",
        flush=True,
    )
    print(
        "| way | pairs | base, ms | wall ÷ base (95 %) | median step ÷ base | thread's CPU ÷ base | CPU, more ns a request "
        "| pair, ns | pair, more ns |\n|" + "---|" * 9,
        flush=True,
    )
    results: dict[str, Any] = {"requests": program.requests, "steps": program.count}
    with tempfile.TemporaryDirectory() as folder:
        ways = Ways(program, Path(folder))
        history = {"torch history, Python stacks": ways.torch_history} if args.device == "cuda" else {}
        phases: dict[str, tuple[dict[str, Any], Any]] = {
            "no tracker": ({"none": ways.none, **history}, ways.none),
            "tracker attached": (
                {
                    "none, tracker attached": ways.none,
                    "record, no stacks": ways.record,
                    "flight": lambda: ways.flight(None),
                    "flight, Python stacks": lambda: ways.flight("python"),
                },
                ways.none,
            ),
            "record": ({"none, under record": ways.none, "watch": ways.watch}, ways.record),
        }
        share, whole = 0.0, sum(SHARES[name] for name in args.phases)
        bases: dict[str, list[float]] = {}
        for name in args.phases:
            found, lasting = phases[name]
            if name == "tracker attached":
                with vram.record(Path(folder) / "first.vtrace", stacks=None):
                    program.chunk()
            share += SHARES[name] / whole
            until = ready + (deadline - 3 - ready) * share
            try:
                pairs = measure(program, found, lasting, until, 2, args.settle)
            except Exception as error:  # the other phases go on
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
                continue
            print("\n".join(rows(program, pairs)), flush=True)
            results[name] = pairs
            bases[name] = [base["pair"] for each in pairs.values() for base, _ in each]
            args.out.write_text(json.dumps(results))
        medians = {name: round(statistics.median(found)) for name, found in bases.items() if found}
        print(
            f"\npair at base, ns: {medians}; lost records: {ways.lost} of {ways.events} events; {time.perf_counter() - BEGAN:.1f} s"
        )


if __name__ == "__main__":
    main()

"""What the flight recorder's calls cost in the place where they are made, without a GPU; compares libraries; prints Markdown.

    VRAM_LIBRARY=A.so python bench/flight_tap.py [--other B.so] [--rounds N] [--depth N] [--evict KIB]

A small transformer on PyTorch's CPU allocates through flight_tap.cpp, which makes the calls of vram's tap: a stack before each request, an
event after it, and one for each free. A flight recorder runs in each library throughout. In each round, every way of recording has one chunk,
in random order: a step to warm up, and --steps measured ones. "CPU": the time of the program's thread, so that other programs disturb little; it
includes what the calls evict from the caches. "in place": ticks around each call, in chunks of their own. --evict reads so much memory before each
call, as a program does that is larger than the caches. "more": than without recording, in the same round; quartiles in parentheses.
"""

from __future__ import annotations

import argparse
import ctypes
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import torch
from overhead import make_model

from vram._library import declare, library
from vram._prototypes import OK, PROTOTYPES, STACKS_PYTHON, FlightOptions
from vram.torch import _toolchain
from vram.torch._compiled import flags

BENCH = Path(__file__).resolve().parent
PARTS = ("stack", "allocation", "free")


def compiled(folder: Path) -> ctypes.PyDLL:
    found = _toolchain.Torch.installed(torch)
    includes = [f"-I{BENCH.parent / 'include'}", "-isystem", str(found.include)]
    output = folder / "flight_tap.so"
    command = [
        *_toolchain.compiler(),
        *flags(found),
        *includes,
        str(BENCH / "flight_tap.cpp"),
        f"-L{found.lib}",
        "-lc10",
    ]
    subprocess.run([*command, "-lstdc++", "-lc", "-o", str(output)], check=True, timeout=300)
    loaded = ctypes.PyDLL(str(output))
    loaded.ticks_now.restype = loaded.count_requests.restype = ctypes.c_uint64
    loaded.take_mean.restype = loaded.ticks_without_python.restype = ctypes.c_double
    return loaded


def pointer(function: Any) -> ctypes.c_void_p:
    return ctypes.cast(function, ctypes.c_void_p)


def nested(depth: int, action: Callable[[], Any]) -> Any:
    return nested(depth - 1, action) if depth else action()


class Program:
    def __init__(self, tap: ctypes.PyDLL, depth: int) -> None:
        self.tap, self.depth = tap, depth
        torch.manual_seed(0)
        self.model = make_model(torch, 16, 8, "cpu")
        self.tokens = torch.randint(0, 8000, (1, 8))
        before, first = time.perf_counter_ns(), tap.ticks_now()
        time.sleep(0.2)
        self.ns_per_tick = (time.perf_counter_ns() - before) / (tap.ticks_now() - first)

    def generate(self) -> None:
        with torch.no_grad():
            self.model(self.tokens)[:, -1].argmax(-1)

    def step_ns(self, steps: int, boundary: Callable[[], Any]) -> float:
        nested(self.depth, self.generate)
        for part in range(len(PARTS)):
            self.tap.take_mean(part)
        before = time.thread_time_ns()
        for _ in range(steps):
            boundary()
            nested(self.depth, self.generate)
        return (time.thread_time_ns() - before) / steps

    def requests(self) -> int:
        before = self.tap.count_requests()
        self.generate()
        return int(self.tap.count_requests() - before)


class Way:
    def __init__(self, name: str, loaded: ctypes.CDLL | None, has_stacks: bool) -> None:
        self.name, self.steps_ns = name, list[float]()
        self.parts: dict[str, list[float]] = {part: [] for part in PARTS}
        self.capture = pointer(loaded.vram_try_capture_stack) if loaded and has_stacks else None
        self.emit = pointer(loaded.vram_record_event) if loaded else None
        self.boundary: Callable[[], Any] = loaded.vram_step if loaded else lambda: None


def ways_of(paths: list[Path], folder: Path) -> list[Way]:
    ways = [Way("none", None, False)]
    for number, path in enumerate(paths):
        loaded = library() if number == 0 else ctypes.CDLL(str(path))
        declare(loaded, PROTOTYPES)
        options = FlightOptions(struct_bytes=ctypes.sizeof(FlightOptions), stacks=STACKS_PYTHON, ignores_signals=1)
        if loaded.vram_flight_start(str(folder / str(number)).encode(), ctypes.byref(options)) != OK:
            raise SystemExit(loaded.vram_last_error().decode())
        label = "" if len(paths) == 1 else f" ({'AB'[number]})"
        ways += [
            Way(f"flight recorder{label}", loaded, False),
            Way(f"flight recorder, Python stacks{label}", loaded, True),
        ]
    return ways


def measure(program: Program, ways: list[Way], rounds: int, steps: int) -> None:
    for is_timed in (False, True):
        program.tap.set_timed(int(is_timed))
        for _ in range(rounds):
            for way in random.sample(ways, len(ways)):
                program.tap.use(way.capture, way.emit)
                found = program.step_ns(steps, way.boundary)
                program.tap.use(None, None)
                if not is_timed:
                    way.steps_ns.append(found)
                else:
                    for number, part in enumerate(PARTS):
                        way.parts[part].append(program.ns_per_tick * program.tap.take_mean(number))


def spread(values: list[float], form: str) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def print_table(ways: list[Way], requests: int) -> None:
    print(
        "| recorded by | CPU of a step, us | ÷ none | CPU, more ns a request | in place: a stack, ns | an allocation, ns | a free, ns |"
    )
    print("|---" * 7 + "|")
    none = ways[0].steps_ns
    for way in ways:
        pairs = list(zip(none, way.steps_ns, strict=True))
        cells = [way.name, spread([ns / 1e3 for ns in way.steps_ns], ".0f")]
        if way is ways[0]:
            cells += [""] * 5
        else:
            cells += [spread([b / a for a, b in pairs], ".4f"), spread([(b - a) / requests for a, b in pairs], ".0f")]
            cells += [spread(way.parts[part], ".0f") for part in PARTS]
        print("| " + " | ".join(cells) + " |")


def print_comparison(ways: list[Way], requests: int) -> None:
    _, _, before, _, after = ways
    pairs = list(zip(before.steps_ns, after.steps_ns, strict=True))
    print(
        f"\nPython stacks, B less A, CPU: {spread([(b - a) / requests for a, b in pairs], '.0f')} ns a request; in place, a stack:"
    )
    print(spread([b - a for a, b in zip(before.parts["stack"], after.parts["stack"], strict=True)], ".0f"), "ns")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="another libvram.so, B; that of VRAM_LIBRARY is A")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--depth", type=int, default=15, help="functions around each step (default: %(default)s)")
    parser.add_argument("--evict", type=int, default=0, metavar="KIB")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        tap = compiled(Path(name))
        tap.install_tap()
        program = Program(tap, args.depth)
        paths = [Path(library()._name), *([args.other] if args.other else [])]
        ways = ways_of(paths, Path(name))
        for way in ways:  # stacks are walked when they are met first
            tap.use(way.capture, way.emit)
            program.step_ns(3, way.boundary)
        tap.use(None, None)
        tap.set_evicted(ctypes.c_size_t(args.evict << 10))
        requests = program.requests()
        print(
            f"{requests} requests a step, {args.rounds} rounds of {args.steps} steps, {args.depth} functions around them, {args.evict} KiB read before each call\n"
        )
        measure(program, ways, args.rounds, args.steps)
        print_table(ways, requests)
        if args.other:
            print_comparison(ways, requests)
        for way in ways:
            if way.capture:
                tap.ticks_without_python(way.capture, 1000)
                found = [program.ns_per_tick * tap.ticks_without_python(way.capture, 100_000) for _ in range(5)]
                print(f"\na thread without Python code, {way.name}: {statistics.median(found):.1f} ns a stack")


if __name__ == "__main__":
    main()

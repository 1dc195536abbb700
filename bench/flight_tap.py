"""What the flight recorder's calls cost in the place where they are made; compares two libraries in one process; prints Markdown.

    VRAM_LIBRARY=A.so python bench/flight_tap.py SECONDS [--device cuda] [--other B.so] [--evict KIB]

A small transformer (`generate` of gpu/overhead.py) computes one token after another. On the CPU it allocates through flight_tap.cpp, which
makes the calls of vram's tap: a stack before each request, an event after it, and one for each free. On a GPU vram's own tap makes them, to
flight_tap.cpp, which hands them on. A flight recorder runs in each library throughout. In each round, every way of recording has one chunk, in
random order: a step to warm up, and --steps measured ones. "none": the tap, whose calls return at once. Steps are marked by the library's
vram_step(); what Python's vram.step() takes has a row of its own. "CPU": the time of the program's thread, so that other programs disturb little.
"in place": ticks around each call, in chunks of their own, at the end. --evict (CPU) reads so much memory before each call, as a program does that
is larger than the caches. Medians of the rounds' quotients or differences, with a bootstrap interval of 95 %.
"""

from __future__ import annotations

import argparse
import ctypes
import os
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
if (
    "VRAM_LIBRARY" in os.environ
):  # a build's, and not that of an installed package, which has the headers that the adapter includes
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
    os.environ.setdefault("CPLUS_INCLUDE_PATH", str(Path(__file__).resolve().parents[1] / "include"))

import torch
from overhead import SIZES, make_model
from recording_cost import interval

import vram
from vram._library import declare, library
from vram._prototypes import OK, PROTOTYPES, STACKS_PYTHON, FlightOptions
from vram.torch import _toolchain
from vram.torch._compiled import flags

BEGAN = time.perf_counter()
BENCH = Path(__file__).resolve().parent
PARTS = ("stack", "allocation", "free")
SHARE_OF_TIMED = 0.2


def compiled(folder: Path, device: str) -> ctypes.PyDLL:
    """The tap, loaded where the adapter under PyTorch's allocator looks before it looks into the library."""
    found = _toolchain.Torch.installed(torch)
    output = folder / "flight_tap.so"
    words = [*_toolchain.compiler(), *flags(found), f"-I{BENCH.parent / 'include'}", str(BENCH / "flight_tap.cpp")]
    words += ["-DTAP_OF_GPU"] if device == "cuda" else ["-isystem", str(found.include), f"-L{found.lib}", "-lc10"]
    subprocess.run([*words, "-lstdc++", "-lc", "-o", str(output)], check=True, timeout=300)
    loaded = ctypes.PyDLL(str(output), mode=ctypes.RTLD_GLOBAL)
    loaded.ticks_now.restype = loaded.count_requests.restype = ctypes.c_uint64
    loaded.take_mean.restype = loaded.ticks_without_python.restype = ctypes.c_double
    return loaded


def pointer(function: Any) -> ctypes.c_void_p:
    return ctypes.cast(function, ctypes.c_void_p)


def nested(depth: int, action: Callable[[], Any]) -> Any:
    return nested(depth - 1, action) if depth else action()


class Program:
    def __init__(self, tap: ctypes.PyDLL, device: str, depth: int) -> None:
        self.tap, self.device, self.depth = tap, device, depth
        width, layers, sequences, length = SIZES["generate"] if device == "cuda" else (16, 8, 1, 8)
        torch.manual_seed(0)
        self.model = make_model(torch, width, layers, device)
        self.tokens = torch.randint(0, 8000, (sequences, length), device=device)
        before, first = time.perf_counter_ns(), tap.ticks_now()
        time.sleep(0.2)
        self.ns_per_tick = (time.perf_counter_ns() - before) / (tap.ticks_now() - first)

    def generate(self) -> None:
        with torch.no_grad():
            self.model(self.tokens)[:, -1].argmax(-1)

    def sync(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def chunk(self, steps: int, boundary: Callable[[], Any]) -> dict[str, float]:
        """Of a step: ns of the wall clock and of the thread, and of each part's call."""
        nested(self.depth, self.generate)
        self.sync()
        for part in range(len(PARTS)):
            self.tap.take_mean(part)
        cpu, wall = time.thread_time_ns(), time.perf_counter_ns()
        for _ in range(steps):
            boundary()
            nested(self.depth, self.generate)
        self.sync()
        wall, cpu = time.perf_counter_ns() - wall, time.thread_time_ns() - cpu
        parts = {part: self.ns_per_tick * self.tap.take_mean(number) for number, part in enumerate(PARTS)}
        return {"wall": wall / steps, "cpu": cpu / steps, **parts}

    def requests(self) -> int:
        before = self.tap.count_requests()
        self.generate()
        return int(self.tap.count_requests() - before)


class Way:
    def __init__(self, name: str, loaded: ctypes.CDLL | None, has_stacks: bool) -> None:
        self.name = name
        self.chunks: list[dict[str, float]] = []
        self.timed: list[dict[str, float]] = []
        self.capture = pointer(loaded.vram_try_capture_stack) if loaded and has_stacks else None
        self.emit = pointer(loaded.vram_record_event) if loaded else None
        self.boundary: Callable[[], Any] = loaded.vram_step if loaded else lambda: None


def ways_of(paths: list[Path], folder: Path) -> list[Way]:
    step = Way("none, vram.step()", None, False)
    step.boundary = vram.step
    ways = [Way("none", None, False), step]
    for number, path in enumerate(paths):
        loaded = library() if number == 0 else ctypes.CDLL(str(path))
        declare(loaded, PROTOTYPES)
        options = FlightOptions(struct_bytes=ctypes.sizeof(FlightOptions), stacks=STACKS_PYTHON, ignores_signals=1)
        where = str(folder / str(number)).encode()
        if loaded is not library() and loaded.vram_flight_start(where, ctypes.byref(options)) != OK:
            raise SystemExit(loaded.vram_last_error().decode())
        label = "" if len(paths) == 1 else f" ({'AB'[number]})"
        ways += [
            Way(f"flight recorder{label}", loaded, False),
            Way(f"flight recorder, Python stacks{label}", loaded, True),
        ]
    return ways


def measure(program: Program, ways: list[Way], steps: int, seconds: float) -> None:
    for is_timed, until in ((False, BEGAN + seconds * (1 - SHARE_OF_TIMED)), (True, BEGAN + seconds)):
        program.tap.set_timed(int(is_timed))
        while time.perf_counter() < until or len(ways[0].timed if is_timed else ways[0].chunks) < 2:
            for way in random.sample(ways, len(ways)):
                program.tap.use(way.capture, way.emit)
                (way.timed if is_timed else way.chunks).append(program.chunk(steps, way.boundary))
                program.tap.use(None, None)


def spread(values: list[float], form: str) -> str:
    return "{:{form}} ({:{form}} to {:{form}})".format(*interval(values), form=form)


def compared(ways: tuple[Way, Way], requests: int) -> list[str]:
    pairs = list(zip(ways[0].chunks, ways[1].chunks, strict=True))
    cells = [spread([after[time] / before[time] for before, after in pairs], ".4f") for time in ("wall", "cpu")]
    cells += [spread([(after["cpu"] - before["cpu"]) / requests for before, after in pairs], ".0f")]
    in_place = list(zip(ways[0].timed, ways[1].timed, strict=True))
    return cells + [spread([after[part] - before[part] for before, after in in_place], ".0f") for part in PARTS]


def print_table(ways: list[Way], requests: int) -> None:
    times = " / ".join(
        f"{statistics.median(chunk[time] for chunk in ways[0].chunks) / 1e3:.0f}" for time in ("wall", "cpu")
    )
    print(
        f"A step takes {times} us (wall clock / the thread's CPU) without recording; {len(ways[0].chunks)} rounds, {len(ways[0].timed)} in place.\n"
    )
    print(
        "| recorded by | compared with | wall ÷ | CPU ÷ | CPU, more ns a request | in place, more ns: a stack | an allocation | a free |"
    )
    print("|---" * 8 + "|")
    for way in ways[1:]:
        print("| " + " | ".join([way.name, "none", *compared((ways[0], way), requests)]) + " |")
    for before, after in zip(ways[2:4], ways[4:], strict=False):
        print("| " + " | ".join([after.name, before.name, *compared((before, after), requests)]) + " |")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", type=float, help="how long it runs, compiling included")
    parser.add_argument(
        "--other", type=Path, help="another libvram.so, B; that of VRAM_LIBRARY, or of the package, is A"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--depth", type=int, default=15, help="functions around each step (default: %(default)s)")
    parser.add_argument("--evict", type=int, default=0, metavar="KIB")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        tap = compiled(Path(name), args.device)
        if args.device == "cpu":
            tap.install_tap()
        program = Program(tap, args.device, args.depth)
        with vram.flight_recorder(Path(name) / "0", signals=False):
            ways = ways_of([Path(library()._name), *([args.other] if args.other else [])], Path(name))
            for way in ways:  # stacks are walked when they are met first
                tap.use(way.capture, way.emit)
                program.chunk(3, way.boundary)
            tap.use(None, None)
            tap.set_evicted(ctypes.c_size_t(args.evict << 10))
            requests = program.requests()
            if requests == 0:
                raise SystemExit("the adapter does not call flight_tap.cpp: was the library loaded before it?")
            name_of_device = torch.cuda.get_device_name() if args.device == "cuda" else "CPU"
            print(
                f"{name_of_device}, PyTorch {torch.__version__}, Python {sys.version.split()[0]}: {requests} requests a step, {args.depth} functions around it, {args.evict} KiB read before each call, cores {len(os.sched_getaffinity(0))}. ",
                end="",
            )
            measure(program, ways, args.steps, args.seconds)
            print_table(ways, requests)
            for way in ways:
                if way.capture:
                    found = [program.ns_per_tick * tap.ticks_without_python(way.capture, 100_000) for _ in range(6)]
                    print(f"\nA thread without Python code, {way.name}: {statistics.median(found[1:]):.1f} ns a stack")


if __name__ == "__main__":
    main()

"""Measures what vram.watch() costs at full depth in loops bound by the host, without a GPU; prints Markdown.

    VRAM_LIBRARY=build/release/src/libvram.so python bench/watch.py [--rounds N]

A small transformer computes with tensors of a few hundred elements, so that PyTorch's own work for each call is all that the time
consists of. It is compared with itself under vram.record(): watched by the native part, and watched by Python code alone. Rounds
alternate; times are the CPU time of the program's thread, so that other programs on the machine disturb little. On a CPU the thread
of the program also computes the backward pass, as PyTorch's thread for the GPU does elsewhere.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from overhead import make_model

import vram
from vram.watching import _native

WIDTH, LAYERS = 16, 6


def make_loops() -> dict[str, tuple[Any, Any, Callable[[], None]]]:
    """Model, optimizer and a step of each loop."""
    tokens = torch.randint(0, 100, (1, 8))

    def generate() -> None:
        with torch.no_grad():
            reader(tokens)

    def train() -> None:
        trained(tokens).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def differentiate() -> None:
        derived(tokens).square().mean().backward()
        derived.zero_grad()

    reader, trained, derived = (make_model(torch, WIDTH, LAYERS, "cpu") for _ in range(3))
    optimizer = torch.optim.SGD(trained.parameters(), 1e-4)
    return {
        "forward": (reader, None, generate),
        "forward and backward": (derived, None, differentiate),
        "training": (trained, optimizer, train),
    }


def seconds(step: Callable[[], None], steps: int) -> float:
    before = time.thread_time()
    for _ in range(steps):
        step()
    return (time.thread_time() - before) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    wanted = parser.parse_args()
    torch.set_num_threads(1)
    ways: dict[str, Callable[[], bool]] = {"native": lambda: True, "Python": lambda: False}
    print("| loop | watched by | us per call of a module | more, us | quotient | quartiles |")
    print("|---|---|---|---|---|---|")
    for loop, (model, optimizer, step) in make_loops().items():
        calls = sum(1 for module in model.modules() if not isinstance(module, torch.nn.ModuleList))
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        with tempfile.TemporaryDirectory() as folder, vram.record(Path(folder) / "run.vtrace", stacks=None):
            for _ in range(wanted.rounds):
                for way, is_native in ways.items():
                    _native.is_wanted = is_native
                    alone = seconds(step, 40)
                    with ExitStack() as stack:
                        stack.enter_context(vram.watch(model, optimizer))
                        seconds(step, 3)
                        found[way].append((alone, seconds(step, 40)))
                    seconds(step, 3)
        for way, pairs in found.items():
            low, quotient, high = statistics.quantiles((after / before for before, after in pairs), n=4)
            base = 1e6 * statistics.median(before for before, _ in pairs) / calls
            more = 1e6 * statistics.median(after - before for before, after in pairs) / calls
            print(
                f"| {loop} | {way} | {base:.1f} | {more:.2f} | {quotient:.3f} | {low:.3f} to {high:.3f} |", flush=True
            )


if __name__ == "__main__":
    main()

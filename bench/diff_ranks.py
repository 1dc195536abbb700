#!/usr/bin/env python3
"""How long a comparison of many ranks takes: vram diff of two folders, with and without stacks.

    cmake --preset release -DVRAM_BENCH=ON && ninja -C build/release vram training_recording && bench/diff_ranks.py

Prints a CSV line for each: ranks of a side, events of each rank, wall-clock seconds and CPU seconds (medians), and the largest resident
memory in MiB. The recordings are those of training.hpp; side B has run for a tenth longer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build/release"


def make_side(folder: Path, ranks: int, events: int, stacks: list[str]) -> Path:
    folder.mkdir()
    first = folder / "run.rank0.vtrace"
    subprocess.run([BUILD / "bench/training_recording", str(events), first, *stacks], check=True)
    for rank in range(1, ranks):
        shutil.copy(first, folder / f"run.rank{rank}.vtrace")
    return folder


def measure(a: Path, b: Path) -> tuple[float, float, float]:
    began = time.perf_counter()
    process = subprocess.Popen([BUILD / "src/vram", "diff", a, b, "--fail-above", "2%"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, 1)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("recordings,ranks,events,seconds,cpu_seconds,peak_mib")
    for name, stacks in (("stacks", ["stacks"]), ("no stacks", [])):
        with tempfile.TemporaryDirectory() as folder:
            a = make_side(Path(folder) / "a", asked.ranks, asked.events, stacks)
            b = make_side(Path(folder) / "b", asked.ranks, asked.events * 11 // 10, stacks)
            rounds = [measure(a, b) for _ in range(asked.rounds)]
        wall, processor, memory = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name},{asked.ranks},{asked.events},{wall:.2f},{processor:.2f},{memory:.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Compares vram's pool with PyTorch's own allocators on an NVIDIA GPU; prints Markdown.

    python compare.py [PROGRAM…] [--rounds N] [--no-cap]

Every program runs N times under each allocator in turn, each time in a new process. The shortest time of each step counts (see
run_program.py), and the sums over the steps are compared. Then it runs once more with at most 1.02 times the peak of requested
bytes, unless --no-cap is given. `ddp` requires two GPUs and is omitted if there is only one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ALLOCATORS = ("native", "expandable", "vram")
Figures = dict[str, Any]


class Failed(Exception):
    """A program failed for another reason than lack of memory."""


def start(program: str, allocator: str, cap: int, rank: int, ranks: int) -> subprocess.Popen[str]:
    words = [sys.executable, str(HERE / "run_program.py"), program, allocator, "--cap", str(cap)]
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(ranks)}
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(program: str, allocator: str, cap: int = 0) -> Figures:
    """Runs a program; returns the figures of the rank with the largest requested peak."""
    ranks = 2 if program == "ddp" else 1
    found = []
    for process in [start(program, allocator, cap, rank, ranks) for rank in range(ranks)]:
        output, errors = process.communicate(timeout=280)
        if process.returncode != 0:
            raise Failed(f"{program} under {allocator} ended with {process.returncode}:\n{errors[-2000:]}")
        found.append(json.loads(output.splitlines()[-1]))
    return max(found, key=lambda figures: figures["requested_bytes"])


def total_ms(runs: list[Figures]) -> float:
    """Returns the sum over all steps of their shortest times."""
    return sum(min(step) for step in zip(*(figures["step_ms"] for figures in runs), strict=False))


def difference(a: list[float], b: list[float]) -> float:
    """Returns the largest relative difference."""
    return max((abs(x - y) / max(abs(x), 1e-9) for x, y in zip(a, b, strict=False)), default=0.0)


def utilization(figures: Figures) -> str:
    return f"{100 * figures['requested_bytes'] / figures['reserved_bytes']:.1f}"


def row(program: str, rounds: int, with_cap: bool) -> str:
    runs: dict[str, list[Figures]] = {allocator: [] for allocator in ALLOCATORS}
    for i in range(rounds):
        for allocator in ALLOCATORS if i % 2 == 0 else reversed(ALLOCATORS):
            runs[allocator].append(run(program, allocator))
    ours, native = runs["vram"][0], runs["native"]
    noise = difference(native[0]["losses"], native[-1]["losses"])
    shift = difference(native[0]["losses"], ours["losses"])
    ends = "–"
    if with_cap:
        capped = run(program, "vram", int(ours["requested_bytes"] * 1.02))
        ends = "out of memory" if capped["oom"] else f"{total_ms([capped]) / total_ms([ours]):.3f}"
    cells = [
        program,
        f"{ours['requested_bytes'] / 2**30:.2f}",
        *(utilization(runs[allocator][0]) for allocator in ALLOCATORS),
        f"{statistics.median(native[0]['step_ms']):.1f}",
        f"{total_ms(runs['vram']) / total_ms(native):.3f}",
        f"{total_ms(runs['vram']) / total_ms(runs['expandable']):.3f}",
        "equal" if shift == 0 else f"{shift:.1e} (native to itself {noise:.1e})",
        ends,
    ]
    return "| " + " | ".join(cells) + " |"


def machine() -> str:
    import torch

    driver = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True
    ).stdout
    return f"{driver.splitlines()[0]}; PyTorch {torch.__version__}; Python {platform.python_version()}"


HEAD = """\
| program | peak requested, GiB | native, % | expandable, % | vram, % | native step, ms | vram ÷ native | vram ÷ expandable | \
losses against native | at 1.02 × requested: time ÷ uncapped |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    sys.path.insert(0, str(HERE))
    import torch
    from programs import PROGRAMS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=2, help="processes for each allocator")
    parser.add_argument("--no-cap", action="store_true")
    wanted = parser.parse_args()
    names = wanted.programs or [name for name in PROGRAMS if name != "ddp" or torch.cuda.device_count() > 1]
    print(machine(), flush=True)
    print(HEAD, flush=True)
    for name in names:
        try:
            print(row(name, wanted.rounds, not wanted.no_cap), flush=True)
        except Failed as failed:
            print(failed, file=sys.stderr, flush=True)
            print(f"| {name} | failed |", flush=True)


if __name__ == "__main__":
    main()

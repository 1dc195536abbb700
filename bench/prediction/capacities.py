"""Measures the least memory with which the programs of families.py run, under each allocator, by bisection.

    python bench/prediction/capacities.py MEASURED OUT [--seconds 500] [--jobs 14] [--half choose|prove] [--only NAME…]

MEASURED is a folder that measure.py wrote: its peaks are where the bisection begins. What PyTorch's allocator may reserve is limited with
`torch.cuda.set_per_process_memory_fraction()`; a program fits if its steps end without an out-of-memory error. Each trial is a process of
its own. OUT/ALLOCATOR/PROGRAM.json.xz has the limits in bytes that were tried: the largest that failed and the least that was enough.
"""

from __future__ import annotations

import argparse
import functools
import json
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import ALLOCATORS, STEPS
from processes import ENVIRONMENT, run_forked, save

# A program with convolutions runs with less than it requests without a limit, because cuDNN has plans with smaller workspaces.
LEAST_OF_REQUESTED = 0.75
# What PyTorch says if no plan of cuDNN's has a workspace that can be had.
NO_PLAN = "unable to find an engine"
# The bisection ends when the two limits differ by this share, or by less than a large block.
RESOLUTION = 0.005
LEAST_DIFFERENCE = 2 << 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=500, help="no program starts later than this")
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--half", choices=["choose", "prove", "fresh", "blind", "unseen", "later", "further"])
    parser.add_argument("--only", nargs="*", default=[], help="names of families")
    parser.add_argument("--allocator", choices=[*ALLOCATORS], help="internal: this process already has its settings")
    return parser.parse_args()


def run_within(program: Any, limit_bytes: int, seed: int = 0) -> dict[str, Any]:
    """Returns whether the steps of the program run if PyTorch's allocator may reserve so much, and its counters; once in a process."""
    import torch

    torch.set_num_threads(2)
    torch.cuda.init()
    total = torch.cuda.get_device_properties(0).total_memory
    # PyTorch multiplies and truncates.
    torch.cuda.set_per_process_memory_fraction(min(1.0, (limit_bytes + 1) / total))
    return run_steps(program, seed)


def run_steps(program: Any, seed: int = 0) -> dict[str, Any]:
    """Returns whether the steps of the program end within the memory that this process has, and the allocator's counters; once in a process."""
    import families
    import torch

    torch.manual_seed(seed)
    try:
        step = families.build(program)
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        fits = True
    except torch.OutOfMemoryError:
        fits = False
    except RuntimeError as error:
        if NO_PLAN not in str(error):
            raise
        fits = False
    stats = torch.cuda.memory_stats()
    return {"fits": fits, "retries": stats["num_alloc_retries"], "reserved": stats["reserved_bytes.all.peak"]}


def trial(program: Any, limit_bytes: int, result: Path) -> None:
    """Writes "fits" or "fails" to `result`."""
    found = run_within(program, limit_bytes)
    result.write_text(json.dumps({"outcome": "fits" if found["fits"] else "fails", "retries": found["retries"]}))


def in_fork(program: Any, limit_bytes: int) -> dict[str, Any]:
    """Returns what `trial` wrote in a fork of this process, or "error"."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        pid = os.fork()
        if pid == 0:
            try:
                trial(program, limit_bytes, result)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        found: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {"outcome": "error"}
    return found


def bisect(program: Any, peaks: dict[str, int], path: Path) -> None:
    """Finds the limits of one program: each trial in a fork of this process, which has not initialized CUDA."""
    low, high = int(LEAST_OF_REQUESTED * peaks["requested_bytes.peak"]), peaks["reserved_bytes.peak"]
    trials: list[dict[str, Any]] = []

    def outcome(limit_bytes: int) -> str:
        found = in_fork(program, limit_bytes)
        trials.append({"limit_bytes": limit_bytes} | found)
        return str(found["outcome"])

    while high - low > max(RESOLUTION * high, LEAST_DIFFERENCE):
        middle = (low + high) // 2 >> 21 << 21
        if middle <= low:
            break
        ended = outcome(middle)
        if ended == "error":
            break
        low, high = (low, middle) if ended == "fits" else (middle, high)
    save(path, {"program": program.name, "half": program.family.half, "fails_bytes": low, "fits_bytes": high, "trials": trials})  # fmt: skip


def work(wanted: argparse.Namespace) -> int:
    import families

    families.preload()
    tasks = []
    programs = [*families.programs((wanted.half,) if wanted.half else ("choose", "prove"))]
    programs.sort(
        key=lambda program: program.batch != max(program.family.batches)
    )  # if time ends, each family has one batch
    for program in programs:
        source = wanted.measured / wanted.allocator / f"{program.name}.json.xz"
        if (wanted.only and program.family.name not in wanted.only) or not source.exists():
            continue
        with lzma.open(source) as file:
            peaks = json.load(file)["peaks"]
        path = wanted.out / wanted.allocator / f"{program.name}.json.xz"
        tasks.append((program.name, functools.partial(bisect, program, peaks, path)))
    return run_forked(f"capacities {wanted.allocator}", tasks, wanted.jobs, wanted.seconds)


def main() -> int:
    wanted = arguments()
    if wanted.allocator:
        return work(wanted)
    started = []
    for name, settings in ALLOCATORS.items():
        environment = {**os.environ, **ENVIRONMENT}
        if settings:
            environment |= {"PYTORCH_CUDA_ALLOC_CONF": settings, "PYTORCH_ALLOC_CONF": settings}
        words = [sys.executable, __file__, *sys.argv[1:], "--allocator", name, "--jobs", str(wanted.jobs // 2)]
        started.append(subprocess.Popen(words, env=environment))
    return min(1, sum(process.wait() for process in started))


if __name__ == "__main__":
    sys.exit(main())

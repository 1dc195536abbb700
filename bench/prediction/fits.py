"""Runs programs with the least memory for which a dry run promised that they fit, and counts those that run out of it.

    python bench/prediction/fits.py PREDICTED.json… OUT.json [--seconds 150] [--seeds 2] [--gib 66]

PREDICTED are files of `peaks.py predict`. Each program runs under each allocator with each seed, in a process of its own, with four steps.
What PyTorch may reserve is limited with `torch.cuda.set_per_process_memory_fraction()`; as many run at once as have --gib together.
OUT has for each run whether it ended, and how often the allocator had to try again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from capacities import run_within
from measure import ALLOCATORS
from processes import ENVIRONMENT

# What a process has on the GPU besides PyTorch's segments, about.
OUTSIDE_BYTES = 800 << 20
MAX_JOBS = 14


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predicted", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--gib", type=float, default=66)
    parser.add_argument("--forked", action="store_true", help="internal: the environment is set")
    return parser.parse_args()


def run_one(program: Any, limit_bytes: int, allocator: str, seed: int, out: Path) -> None:
    import torch

    if ALLOCATORS[allocator]:
        torch.cuda.memory._set_allocator_settings(ALLOCATORS[allocator])
    found: dict[str, Any] = {
        "program": program.name,
        "allocator": allocator,
        "seed": seed,
        "limit_bytes": limit_bytes,
    }
    try:
        found |= run_within(program, limit_bytes, seed)
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    found["free_bytes"] = torch.cuda.mem_get_info()[0]
    out.write_text(json.dumps(found))


def main() -> int:
    wanted = arguments()
    if not wanted.forked:
        return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--forked"], env={**os.environ, **ENVIRONMENT})
    import families

    families.preload()
    predicted: dict[str, Any] = {}
    for path in wanted.predicted:
        predicted |= json.loads(path.read_text()) if path.exists() else {}
    queue = [
        (program, predicted[program.name]["limits"][allocator], allocator, seed)
        for seed in range(wanted.seeds)
        for program in families.programs(families.GROUPS)
        if "limits" in predicted.get(program.name, {})
        for allocator in ALLOCATORS
    ]
    # Each seed is a round, so that time that ends early leaves out repetitions and not programs.
    choose = random.Random(0)
    queue.sort(key=lambda run: (run[3], choose.random()))
    until, running, found = time.monotonic() + wanted.seconds, {}, []
    with tempfile.TemporaryDirectory() as folder:
        while (queue and time.monotonic() < until) or running:
            used = sum(limit + OUTSIDE_BYTES for limit, _ in running.values())
            fitting = [run for run in queue[:40] if used + run[1] + OUTSIDE_BYTES <= wanted.gib * 2**30]
            if fitting and len(running) < MAX_JOBS and time.monotonic() < until:
                run = fitting[0]
                queue.remove(run)
                out = Path(folder) / f"{len(found)}.{len(queue)}.json"
                pid = os.fork()
                if pid == 0:
                    try:
                        run_one(*run, out)
                    finally:
                        os._exit(0)
                running[pid] = (run[1], out)
                continue
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                out = running.pop(pid)[1]
                found += [json.loads(out.read_text())] if out.exists() else []
                wanted.out.write_text("[" + ",\n".join(map(json.dumps, found)) + "]\n")
            else:
                time.sleep(0.02)
    failed = [each for each in found if not each.get("fits")]
    print(
        f"{len(found)} runs of {len({each['program'] for each in found})} programs, {len(failed)} not ended; {len(queue)} not started"
    )
    for each in failed:
        print(each)
    return 0


if __name__ == "__main__":
    sys.exit(main())

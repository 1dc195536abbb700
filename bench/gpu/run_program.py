"""Runs one program under one allocator, in its own process; prints its figures as one line of JSON.

    python run_program.py PROGRAM native|expandable|vram [--cap BYTES] [--rounds N]

The program runs N times in the process, always in the same way. The first round is not timed, because it also loads kernels from
disk. From the fourth step on, the shortest time of each step counts: other programs of the machine delay a step from time to
time, an allocator delays it every time.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import time
from typing import Any


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("allocator", choices=["native", "expandable", "vram"])
    parser.add_argument("--cap", type=int, default=0, help="bytes that may be reserved")
    parser.add_argument("--rounds", type=int, default=4)
    return parser.parse_args()


def main() -> None:
    wanted = arguments()
    if wanted.allocator == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    if wanted.allocator == "vram":
        import vram

        vram.enable()
    torch.cuda.init()
    device = int(os.environ.get("RANK", "0"))
    if wanted.cap:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(wanted.cap / total, device)
    rounds: list[dict[str, Any]] = []
    for _ in range(1 if wanted.program == "ddp" else wanted.rounds):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        rounds.append(run(wanted.program, device))
    timed = [figures.pop("took_ms") for figures in rounds][-max(1, len(rounds) - 1) :]
    figures = rounds[-1] | {"step_ms": [min(took) for took in zip(*timed, strict=False)]}
    figures |= {"program": wanted.program, "allocator": wanted.allocator, "cap_bytes": wanted.cap}
    print(json.dumps(figures), flush=True)


def run(program: str, device: int) -> dict[str, Any]:
    import torch
    from programs import PROGRAMS

    random.seed(0)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    function, steps = PROGRAMS[program]
    losses, times, oom = [], [time.perf_counter()], None
    try:
        for loss in function(steps):
            torch.cuda.synchronize(device)
            times.append(time.perf_counter())
            losses.append(loss.item())
    except torch.OutOfMemoryError as error:
        oom = str(error)
    stats = torch.cuda.memory_stats(device)
    return {
        "steps": len(losses),
        "losses": losses,
        "oom": oom,
        "took_ms": [1e3 * (after - before) for before, after in itertools.pairwise(times[3:])],
        "requested_bytes": stats["requested_bytes.all.peak"],
        "reserved_bytes": stats["reserved_bytes.all.peak"],
        "retries": stats["num_alloc_retries"],
    }


if __name__ == "__main__":
    main()

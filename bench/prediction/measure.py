"""Measures the programs of families.py on a GPU, for the comparison with predictions.

    python bench/prediction/measure.py OUT [--seconds 520] [--jobs 10] [--half choose|prove] [--only NAME…] [--alone]
    python bench/prediction/measure.py OUT --device cpu --only gpt2      # tiny, without a GPU: checks the script itself

Each program runs in a process of its own, under each allocator, and writes OUT/ALLOCATOR/PROGRAM.json.xz: PyTorch's counters for each
of four steps and over all, and the bytes that the process has on the device. A program of the half `choose` runs once more under the
native allocator with the memory history switched on (`history`) and a journal of all calls of its third step (`journal`).

Programs run in parallel, because PyTorch's counters belong to the process. What the device has in use does not: `--alone` runs one
program at a time, the larger batch of each family in fp32 under the native allocator, and writes it to OUT/alone.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, now, nvml, run_forked, save

STEPS = 4
JOURNALED = 2
ALLOCATORS = {"native": "", "expandable": "expandable_segments:True"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=520, help="no program starts later than this")
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--half", choices=["choose", "prove", "fresh", "blind", "unseen", "later", "further"])
    parser.add_argument("--only", nargs="*", default=[], help="names of families")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--allocator", choices=[*ALLOCATORS], help="internal: this process already has its settings")
    return parser.parse_args()


def compact(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the journal with each operator's description stored once: `calls` are the numbers of `kinds`, in order."""
    kinds: dict[str, int] = {}
    calls = [kinds.setdefault(json.dumps(row, sort_keys=True), len(kinds)) for row in rows]
    return {"kinds": [json.loads(kind) for kind in kinds], "calls": calls}


def peaks() -> dict[str, int]:
    import torch

    stats = torch.cuda.memory_stats() if torch.cuda.is_available() else {}
    kinds = ("requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes")
    found = {f"{kind}.{what}": stats.get(f"{kind}.all.{what}", 0) for kind in kinds for what in ("current", "peak")}
    return found | {
        key: stats.get(key, 0) for key in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
    }


def run_steps(program: Any, device: str, history: bool) -> dict[str, Any]:
    """Builds the program and runs its steps; with `history`, records all allocations and the calls of one step."""
    import families
    import torch
    from journal import Journal

    found: dict[str, Any] = {"before": nvml()}
    cuda = device == "cuda"
    if cuda:
        torch.cuda.init()
        torch.empty(1, device="cuda")
        found["context"] = now()
        torch.cuda.empty_cache()
        if history:
            torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=1_000_000)
    torch.manual_seed(0)
    step = families.build(program, device, tiny=not cuda)
    found |= {"built": peaks() | now(), "steps": []}
    highest = peaks()
    for i in range(STEPS):
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        if history and i == JOURNALED:
            found |= log(found) | {"journaled_step": i}
            with Journal() as journal:
                step()
            found["journal"] = compact(journal.rows())
            break
        started = time.perf_counter()
        loss = step()
        if cuda:
            torch.cuda.synchronize()
        figures = peaks() | now() | {"seconds": round(time.perf_counter() - started, 4), "loss": float(loss)}
        found["steps"].append(figures)
        highest = {key: max(value, figures[key]) for key, value in highest.items()}
    return found | {"peaks": highest}


def log(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the memory history up to now: [action, address, size, stream] of each entry."""
    import torch

    if not torch.cuda.is_available():
        return {}
    trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    torch.cuda.memory._record_memory_history(None)
    actions = [*dict.fromkeys(entry["action"] for entry in trace)]
    rows = [[actions.index(entry["action"]), entry.get("addr", 0), entry["size"], entry["stream"]] for entry in trace]
    return {"history": {"actions": actions, "rows": rows, "steps": len(found["steps"])}}


def child(program: Any, path: Path, allocator: str, device: str, history: bool) -> None:
    import torch

    torch.set_num_threads(2)
    found: dict[str, Any] = {
        "program": program.name, "family": program.family.name, "half": program.family.half, "precision": program.precision,
        "batch": program.batch, "allocator": allocator, "torch": torch.__version__, "device": device,
    }  # fmt: skip
    try:
        if device == "cuda" and torch.cuda._is_in_bad_fork():
            raise RuntimeError("CUDA was initialized before the fork; start with PYTORCH_NVML_BASED_CUDA_CHECK=1")
        found |= run_steps(program, device, history)
    except Exception:
        found["error"] = traceback.format_exc()[-2000:]
    save(path, found)
    if "error" in found:
        raise SystemExit(1)


def work(wanted: argparse.Namespace) -> int:
    """Runs all programs under the allocator of this process, each in a fork of it, which saves the imports."""
    import families

    families.preload()
    halves = (wanted.half,) if wanted.half else ("choose", "prove")
    chosen = [program for program in families.programs(halves) if not wanted.only or program.family.name in wanted.only]
    folder = wanted.out / ("alone" if wanted.alone else wanted.allocator)
    if wanted.alone:
        chosen = [
            program
            for program in chosen
            if program.precision == "fp32" and program.batch == max(program.family.batches)
        ]
    queue = [(program, folder / f"{program.name}.json.xz", False) for program in chosen]
    if wanted.allocator == "native" and not wanted.alone:
        kept = [program for program in chosen if program.family.half == "choose"]
        queue += [(program, wanted.out / "journal" / f"{program.name}.json.xz", True) for program in kept]
    tasks = [
        (
            f"{path.parent.name}/{program.name}",
            functools.partial(child, program, path, wanted.allocator, wanted.device, history),
        )
        for program, path, history in queue
    ]
    return run_forked(folder.name, tasks, wanted.jobs, wanted.seconds)


def main() -> int:
    wanted = arguments()
    if wanted.allocator:
        return work(wanted)
    names = ["native"] if wanted.alone or wanted.device != "cuda" else [*ALLOCATORS]
    started = []
    for name in names:
        settings = {"PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[name], "PYTORCH_ALLOC_CONF": ALLOCATORS[name]}
        environment = {**os.environ, **ENVIRONMENT} | {key: value for key, value in settings.items() if value}
        # The native allocator has the journals to do as well.
        jobs = (
            1
            if wanted.alone
            else max(1, round(wanted.jobs * (1 if len(names) == 1 else 0.6 if name == "native" else 0.4)))
        )
        words = [sys.executable, __file__, *sys.argv[1:], "--allocator", name, "--jobs", str(jobs)]
        started.append(subprocess.Popen(words, env=environment))
    failed = sum(process.wait() for process in started)
    where = {"machine": platform.platform(), "python": platform.python_version(), "arguments": sys.argv[1:]}
    save(wanted.out / "about.json.xz", where)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

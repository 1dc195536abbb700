"""Runs programs on a GPU that really ends at the least memory that was promised: what is left of it is taken by cuMemAlloc.

    python bench/prediction/device_end.py PREDICTED.json OUT.json NAME… [--seconds 300] [--allocator expandable] [--fraction]

PREDICTED is what `proof.py` or `peaks.py predict` writes. Each program runs once, in a process of its own, one at a time; with --fraction once more with
`torch.cuda.set_per_process_memory_fraction()`. No other process may use the GPU. OUT has for each run whether it ended, and how often the allocator had
to try again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from capacities import run_steps, run_within
from measure import ALLOCATORS
from processes import ENVIRONMENT

PAGE_BYTES = 2 << 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predicted", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=300, help="no program starts later than this")
    parser.add_argument("--allocator", choices=[*ALLOCATORS], default="expandable")
    parser.add_argument("--fraction", action="store_true")
    parser.add_argument("--forked", action="store_true", help="internal: the environment is set")
    return parser.parse_args()


def bytes_of_driver() -> int:
    """Returns what the GPU has in use while no process does. CUDA must not be initialized before forks."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.check_output(words, text=True).splitlines()[0]) << 20


def take_the_rest(limit_bytes: int, outside_bytes: int, driver_bytes: int) -> None:
    """Leaves so much for the allocator, and for what is outside of it and does not exist yet."""
    import torch

    torch.cuda.init()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    context = max(0, total - free - driver_bytes)
    rest = free - limit_bytes - max(0, outside_bytes - context)
    address = ctypes.c_uint64()
    status = ctypes.CDLL("libcuda.so.1").cuMemAlloc_v2(
        ctypes.byref(address), ctypes.c_size_t(rest // PAGE_BYTES * PAGE_BYTES)
    )
    if status:
        raise RuntimeError(f"cuMemAlloc of {rest} bytes failed with {status}")


def run_at_end(program: Any, limit_bytes: int, outside_bytes: int, driver_bytes: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(2)
    take_the_rest(limit_bytes, outside_bytes, driver_bytes)
    return run_steps(program) | {"free_at_end": torch.cuda.mem_get_info()[0]}


def run_one(program: Any, predicted: dict[str, Any], allocator: str, limited_by: str, driver_bytes: int) -> dict[str, Any]:  # fmt: skip
    import torch

    if ALLOCATORS[allocator]:
        torch.cuda.memory._set_allocator_settings(ALLOCATORS[allocator])
    limit = predicted["limits"][allocator]
    if limited_by == "device":
        found = run_at_end(program, limit, predicted["outside"], driver_bytes)
    else:
        found = run_within(program, limit)
    return {"limit_bytes": limit} | found


def in_fork(name: str, limited_by: str, call: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        pid = os.fork()
        if pid == 0:
            try:
                result.write_text(json.dumps(call()))
            except Exception as error:
                result.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        found = json.loads(result.read_text()) if result.exists() else {"error": "the process died"}
    return {"program": name, "limited_by": limited_by} | found


def results(wanted: argparse.Namespace) -> Iterator[dict[str, Any]]:
    import families

    families.preload()
    predicted = json.loads(wanted.predicted.read_text())
    programs = {program.name: program for program in families.programs(families.GROUPS)}
    driver_bytes, until = bytes_of_driver(), time.monotonic() + wanted.seconds
    for name in wanted.names:
        for limited_by in ("device", "fraction") if wanted.fraction else ("device",):
            if time.monotonic() > until:
                return

            def call(name: str = name, limited_by: str = limited_by) -> dict[str, Any]:
                return run_one(programs[name], predicted[name], wanted.allocator, limited_by, driver_bytes)

            yield {"allocator": wanted.allocator} | in_fork(name, limited_by, call)


def main() -> int:
    wanted = arguments()
    if not wanted.forked:
        return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--forked"], env={**os.environ, **ENVIRONMENT})
    found = []
    for each in results(wanted):
        print(each, flush=True)
        found.append(each)
        wanted.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

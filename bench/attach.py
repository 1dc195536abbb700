"""Measures what `vram record --pid` (attached by the probes of PyTorch's library) costs a program; prints Markdown.

    sudo python bench/attach.py [--rounds N] [--seconds S] [--stacks]

Needs an NVIDIA GPU, root or CAP_BPF and CAP_PERFMON, and `vram` on PATH. The programs are those of bench/gpu/overhead.py. Each runs
in a process that knows nothing of vram and counts its steps. A pair is S seconds with vram attached and S seconds without; the
first half second of each is not counted. The table has the median of the pairs and their quartiles.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))
from overhead import SIZES, make_step

SETTLE_S = 0.5


def child(program: str, counter: str) -> None:
    """Counts the finished steps, and the requests for memory, in a shared page."""
    import torch

    step, _, _ = make_step(torch, program)
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), 4096) as page:
        done = 0
        while True:
            for _ in range(4):
                step()
            torch.cuda.synchronize()
            done += 4
            requests = torch.cuda.memory_stats()["allocation.all.allocated"]
            struct.pack_into("<QQ", page, 0, done, requests)


def counts(counter: Path) -> tuple[int, int]:
    found: tuple[int, int] = struct.unpack_from("<QQ", counter.read_bytes())
    return found


def rates(counter: Path, seconds: float) -> tuple[float, float]:
    """Steps and requests in a second."""
    time.sleep(SETTLE_S)
    began, before = time.perf_counter(), counts(counter)
    time.sleep(seconds)
    took, after = time.perf_counter() - began, counts(counter)
    return (after[0] - before[0]) / took, (after[1] - before[1]) / took


def attached(pid: int, counter: Path, seconds: float, folder: Path, stacks: bool) -> float:
    vram = shutil.which("vram") or sys.exit("vram is not on PATH")
    words = [vram, "record", "--pid", str(pid), "-o", str(folder / "run.vtrace"), "--force"]
    recorder = subprocess.Popen(
        words + ["--stacks", "python"] * stacks, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        found, _ = rates(counter, seconds)
    finally:
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=60)
    if recorder.returncode != 0:
        sys.exit(errors)
    return found


def measure(program: str, rounds: int, seconds: float, stacks: bool) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counter = folder / "counter"
        counter.write_bytes(bytes(4096))
        running = subprocess.Popen([sys.executable, __file__, "--child", program, "--counter", str(counter)])
        try:
            while counts(counter)[0] == 0:
                if running.poll() is not None:
                    sys.exit(f"{program} ended")
                time.sleep(0.1)
            pairs, events = [], []
            for _ in range(rounds):
                alone, requests = rates(counter, seconds)
                pairs.append(alone / attached(running.pid, counter, seconds, folder, stacks))
                events.append(2 * requests)
        finally:
            running.kill()
            running.wait()
    low, middle, high = statistics.quantiles(pairs, n=4)
    rate = statistics.median(events)
    cost_us = 1e6 * (middle - 1) / rate
    return f"| {program} | {rate:,.0f} | {middle:.3f} | {low:.3f} to {high:.3f} | {cost_us:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--stacks", action="store_true", help="with Python stacks")
    parser.add_argument("--child", choices=[*SIZES], help=argparse.SUPPRESS)
    parser.add_argument("--counter", help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted.child, wanted.counter)
        return
    if os.geteuid() != 0:
        print("not root: this needs CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE", file=sys.stderr)
    print("| program | events a second | quotient | quartiles | us an event |")
    print("|---|---|---|---|---|")
    for program in SIZES:
        print(measure(program, wanted.rounds, wanted.seconds, wanted.stacks), flush=True)


if __name__ == "__main__":
    main()

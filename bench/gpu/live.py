"""Compares the monitoring commands with nvidia-smi on an NVIDIA GPU, and measures their time; prints Markdown.

    python live.py [--seconds N]

`vram` must be on the PATH, and Python must be able to import vram and PyTorch with CUDA.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
MEMORY = ("total", "used", "free", "reserved")


def smi(*query: str) -> list[list[str]]:
    words = ["nvidia-smi", *query, "--format=csv,noheader,nounits"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip().splitlines()
    return [line.split(", ") for line in lines]


def smi_memory() -> list[list[str]]:
    return smi("--query-gpu=" + ",".join(f"memory.{name}" for name in MEMORY))


def smi_processes() -> list[list[str]]:
    return sorted(smi("--query-compute-apps=pid,used_memory"))


def look() -> Any:
    return json.loads(subprocess.run(["vram", "status", "--json"], capture_output=True, text=True, check=True).stdout)


def is_within_mib(value: str, found: int | None) -> bool:
    if not value.isdigit():
        return found is None
    return found is not None and abs(int(value) - found / MIB) <= 1


@dataclass
class Agreement:
    """How many of vram's samples, taken between two equal samples of nvidia-smi, agree with these."""

    pairs: int = 0
    agreeing: int = 0
    apart: list[Any] = field(default_factory=list)

    def add(self, is_same: bool, evidence: Any) -> None:
        self.pairs += 1
        self.agreeing += is_same
        if not is_same:
            self.apart.append(evidence)


def compare_once(devices: Agreement, processes: Agreement) -> None:
    before = smi_memory(), smi_processes()
    found = look()
    after = smi_memory(), smi_processes()
    memory = [device["memory"] for device in found["devices"]]
    for line, later, sizes in zip(before[0], after[0], memory, strict=True):
        if line == later:
            same = [is_within_mib(value, sizes[f"{name}_bytes"]) for name, value in zip(MEMORY, line, strict=True)]
            devices.add(all(same), (line, sizes))
    if before[1] == after[1]:
        uses = {str(process["pid"]): process["uses"][0]["used_bytes"] for process in found["processes"]}
        is_same = all(pid in uses and is_within_mib(value, uses[pid]) for pid, value in before[1])
        processes.add(is_same and len(uses) == len(before[1]), (before[1], uses))


def start_load(index: int, seconds: float) -> subprocess.Popen[bytes]:
    """On the GPU with this number in nvidia-smi."""
    words = [sys.executable, str(HERE / "random_load.py"), str(seconds)]
    variables = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(index)}
    return subprocess.Popen(words, env=variables)


def agreement(seconds: float) -> Iterator[str]:
    devices, processes = Agreement(), Agreement()
    with contextlib.ExitStack() as loads:
        for index in range(len(smi_memory())):
            load = start_load(index, seconds + 15)
            loads.enter_context(load)
            loads.callback(load.terminate)
        time.sleep(10)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            compare_once(devices, processes)
    yield "| compared with nvidia-smi | pairs | within 1 MiB |\n|---|---|---|"
    yield f"| total, used, free, reserved of each device | {devices.pairs} | {devices.agreeing} |"
    yield f"| each process's memory | {processes.pairs} | {processes.agreeing} |"
    yield from (f"- apart: {each}" for each in (devices.apart + processes.apart)[:10])


def open_descriptors(pid: int) -> int:
    """Of the driver."""
    links = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(link))
        except OSError:  # it was closed meanwhile
            continue
    return sum("nvidia" in link for link in links)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watching(period: float, seconds: float) -> Iterator[str]:
    words = ["vram", "status", "--csv", "--watch", str(period)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watch:
        time.sleep(2)
        used, begin = cpu_seconds(watch.pid), time.monotonic()
        time.sleep(seconds)
        share = (cpu_seconds(watch.pid) - used) / (time.monotonic() - begin)
        before, asked = open_descriptors(watch.pid), time.monotonic()
        watch.send_signal(signal.SIGUSR1)
        while open_descriptors(watch.pid) and time.monotonic() < asked + 5:
            time.sleep(0.001)
        let_go = time.monotonic() - asked
        left = open_descriptors(watch.pid)
        watch.send_signal(signal.SIGINT)
        text = watch.stdout.read() if watch.stdout else ""
    times = sorted({int(line.split(",")[0]) for line in text.splitlines()[1:]})
    periods = [(later - earlier) / 1e9 for earlier, later in itertools.pairwise(times)]
    yield f"period of {period} s: median {statistics.median(periods):.5f} s, longest {max(periods):.5f} s"
    yield f"{100 * share:.2f} % of a core; of {before} open descriptors {left} {1e3 * let_go:.0f} ms after SIGUSR1"


def start_to_exit(*words: str) -> str:
    times = []
    for _ in range(30):
        begin = time.monotonic()
        subprocess.run(words, capture_output=True, check=False)
        times.append(time.monotonic() - begin)
    return f"| `{' '.join(words)}` | {1e3 * statistics.median(times):.1f} ms |"


def median_us(call: Callable[[], int], count: int = 300) -> float:
    call()
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


def driver_calls() -> Iterator[str]:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()
    device, out, number = ctypes.c_void_p(), (ctypes.c_ubyte * 65536)(), ctypes.c_uint()
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    version = ctypes.cast(out, ctypes.POINTER(ctypes.c_uint))

    def memory() -> int:
        version[0] = 0x02000028
        return int(nvml.nvmlDeviceGetMemoryInfo_v2(device, out))

    def processes() -> int:
        return int(nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(ctypes.c_uint(64)), out))

    def process_utilization() -> int:
        room = ctypes.byref(ctypes.c_uint(100))
        return int(nvml.nvmlDeviceGetProcessUtilization(device, out, room, ctypes.c_ulonglong(0)))

    calls: dict[str, Callable[[], int]] = {
        "GetMemoryInfo_v2": memory,
        "GetUtilizationRates": lambda: nvml.nvmlDeviceGetUtilizationRates(device, out),
        "GetComputeRunningProcesses_v3": processes,
        "GetProcessUtilization": process_utilization,
        "GetBAR1MemoryInfo": lambda: nvml.nvmlDeviceGetBAR1MemoryInfo(device, out),
        "GetPowerUsage": lambda: nvml.nvmlDeviceGetPowerUsage(device, ctypes.byref(number)),
    }
    for name, call in calls.items():
        yield f"| `{name}` | {median_us(call):.1f} µs |"
    nvml.nvmlShutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100, help="how long to compare")
    seconds = parser.parse_args().seconds
    for line in (*agreement(seconds), "", *watching(0.5, 20), "", "| | median |\n|---|---|"):
        print(line, flush=True)
    for source in ("nvml", "drm"):
        print(start_to_exit("vram", "status", "--gpu", source), flush=True)
    print(start_to_exit("nvidia-smi"), *driver_calls(), sep="\n")


if __name__ == "__main__":
    main()

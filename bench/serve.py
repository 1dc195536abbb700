#!/usr/bin/env python3
"""Measures what `vram serve` costs: 8 GPUs, 64 processes on all or on each, a sample every second, a scrape every 15 s.

Runs the program with the fake library (tests/fake_nvml, so without a driver's cost), measures its CPU time by the scheduler's
count and its memory, then the time of 2,000 scrapes during sampling. The figures are from one run; other work on the machine
can only increase them.

    bench/serve.py --build build/release --seconds 60
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

GPUS = 8
SCRAPE_PERIOD_S = 15
WARM_UP_S = 30  # after that, it reads each process at the lowest rate
LIMITS = {"cpu_percent": 0.2, "rss_mib": 15.0, "scrape_p99_ms": 5.0}


def scenario(pids: list[int]) -> str:
    lines = ["version 580.95.05"]
    for gpu in range(GPUS):
        lines += [
            f"device {gpu}\nname NVIDIA H200\nuuid GPU-1b5fa1a2-0000-4000-8000-{gpu:012}\npci 0 {0x19 + gpu:#x} 0",
            "total 143771M\nused 92000M\nreserved 600M\nutilization 97 60\ncelsius 61\nclocks 1980 2619",
            "milliwatts 612000\npower-limit 700000\nthrottle 0x0\npcie 1000 2000\nnvlink 10 20\nmemory-celsius 70",
            "bar1 262144M 10M\necc 1 0 5 2\nrows 0 0 off off\ncompute-mode 0\npersistence on",
        ]
        here = pids[gpu::GPUS]
        lines += [f"process compute {pid} {1000 + place}M 4294967295 0 1" for place, pid in enumerate(here)]
    return "\n".join(lines) + "\n"


def cpu_ns(pid: int) -> int:
    """Returns the time of all threads in nanoseconds; /proc/PID/stat counts in hundredths of a second."""
    tasks = Path(f"/proc/{pid}/task")
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir())


def rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def scrape(port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics", headers=headers)
    size = len(connection.getresponse().read())
    connection.close()
    return size


def latencies_ms(port: int, count: int, headers: dict[str, str]) -> list[float]:
    found = []
    for _ in range(count):
        begin = time.perf_counter()
        scrape(port, headers)
        found.append((time.perf_counter() - begin) * 1000)
        time.sleep(0.002)  # so that the scrapes span several samples
    return sorted(found)


def idle_cost(pid: int, port: int, seconds: float) -> float:
    """Returns the CPU time in percent of one core, with a scrape from time to time."""
    begin, before = time.monotonic(), cpu_ns(pid)
    next_scrape = begin
    while time.monotonic() - begin < seconds:
        if time.monotonic() >= next_scrape:
            scrape(port, {"Accept-Encoding": "gzip"})
            next_scrape += SCRAPE_PERIOD_S
        time.sleep(0.2)
    return (cpu_ns(pid) - before) / (time.monotonic() - begin) / 1e7


def wait_for_port(log: Path) -> int:
    while True:
        for line in log.read_text().splitlines():
            if "url.full" in (event := json.loads(line)):
                return int(event["url.full"].rsplit(":", 1)[1])
        time.sleep(0.05)


def measure(build: Path, seconds: float, count: int, real_processes: bool, options: list[str]) -> dict[str, float]:
    sleepers = [subprocess.Popen(["sleep", "3600"]) for _ in range(count if real_processes else 0)]
    pids = [each.pid for each in sleepers] or list(range(3_000_000_000, 3_000_000_000 + count))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "scenario").write_text(scenario(pids))
        library = build / "tests/fake_nvml/3/libnvidia-ml.so.1"
        changes = {"VRAM_NVML": str(library.resolve()), "FAKE_NVML_SCENARIO": str(place / "scenario")}
        words = [str(build / "src/vram"), "serve", "--gpu", "nvml", "--listen", "127.0.0.1:0"]
        words += ["--log-format", "json", "--history", str(place / "history.db"), *options]
        with (place / "log").open("wb") as log:
            program = subprocess.Popen(words, stderr=log, env={**os.environ, **changes})
        try:
            port = wait_for_port(place / "log")
            time.sleep(WARM_UP_S)
            cpu = idle_cost(program.pid, port, seconds)
            rss = rss_mib(program.pid)
            plain = latencies_ms(port, 1000, {})
            packed = latencies_ms(port, 1000, {"Accept-Encoding": "gzip"})
            both = sorted(plain + packed)
            return {
                "cpu_percent": round(cpu, 3),
                "rss_mib": round(rss, 2),
                "rss_after_scrapes_mib": round(rss_mib(program.pid), 2),
                "scrape_p50_ms": round(both[len(both) // 2], 3),
                "scrape_p99_ms": round(both[len(both) * 99 // 100], 3),
                "page_bytes": scrape(port, {}),
                "page_gzip_bytes": scrape(port, {"Accept-Encoding": "gzip"}),
            }
        finally:
            program.terminate()
            program.wait()
            for each in sleepers:
                each.kill()
                each.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=64, help="on all GPUs together (64)")
    parser.add_argument("--real-processes", action="store_true", help="start so many processes, instead of hidden ones")
    parser.add_argument("options", nargs="*", help="of vram serve, after --")
    words = parser.parse_args()
    figures = measure(words.build, words.seconds, words.processes, words.real_processes, words.options)
    print(json.dumps(figures, indent=2))
    missed = [name for name, limit in LIMITS.items() if figures[name] > limit]
    print("within the limits" if not missed else f"beyond the limits: {', '.join(missed)}", LIMITS)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())

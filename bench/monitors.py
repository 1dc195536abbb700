"""Measures what monitors cost: vram top, vram status --watch, and nvtop, nvitop, gpustat if they are installed.

    python bench/monitors.py [--seconds N] [--period S] [--gpus N] [--processes N] [MONITOR…]

All monitors read the same fake NVIDIA library (tests/fake_nvml), which answers at once, so the figures are those of the monitor
itself: a lower bound. The library's processes are real, sleeping ones, so that /proc is real, too. Each monitor runs in a terminal
of 200 by 50 that reads its output. After a warm-up, for N seconds, it measures:

    CPU     of one core, for all threads (/proc/PID/task/*/schedstat)
    RSS     at the end
    calls   of the library per GPU and refresh, including less frequent ones; in a separate run, because logging them costs time
    period  between refreshes, minus the requested one

for vram top also the longest time from a key to the screen while a library call hangs; for vram status, once, the time from
start to exit.

A row per monitor is printed as soon as it is measured; for a monitor that ends early, the row contains its output.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "build" / "release"
LIBRARY = BUILD / "tests" / "fake_nvml" / "3" / "libnvidia-ml.so.1"
VRAM = str(BUILD / "src" / "vram")
WARM_UP_S = 5
COUNTED_S = 12
ROWS, COLUMNS = 50, 200
KEYS = 40
KEY_PATIENCE_S = 5
STARTS = 30
WHERE_IS_THE_CURSOR, CURSOR = b"\x1b[6n", b"\x1b[1;1R"


@dataclass
class Figures:
    cpu_percent: float = 0.0
    rss_mib: float = 0.0
    calls: float | None = None
    period_error: float | None = None


def commands(period: float) -> dict[str, list[str]]:
    """Returns the monitors that are installed."""
    known = {
        "vram top": [VRAM, "top", "--no-settings", "--gpu", "nvml", "--period", f"{period}s"],
        "vram status": [VRAM, "status", "--gpu", "nvml", "--watch", str(period)],
        "nvtop": ["nvtop", "-d", str(round(period * 10))],
        "nvitop": ["nvitop", "--monitor", "full", "--interval", str(period)],
        "gpustat": ["gpustat", "-cpu", "--watch", str(period)],
    }
    return {name: words for name, words in known.items() if shutil.which(words[0])}


def scenario(gpus: int, pids: list[int]) -> str:
    # The real nvmlDeviceGetPcieThroughput counts for 20 ms, according to its documentation.
    lines = [f"devices {gpus}", "version 580.95.05", "hang nvmlDeviceGetPcieThroughput 20"]
    each = len(pids) // gpus
    for gpu in range(gpus):
        used = each * 9000 + 600
        lines += [
            f"device {gpu}",
            "name NVIDIA H200",
            f"uuid GPU-1b5fa1a2-0000-4000-8000-{gpu:012}",
            f"pci 0 {25 + gpu} 0",
        ]
        lines += [
            "total 144384M",
            f"used {used}M",
            "reserved 600M",
            f"utilization {90 + gpu} 40",
            f"celsius {50 + gpu}",
        ]
        lines += ["memory-celsius 60", "milliwatts 612000", "power-limit 700000", "clocks 1980 2619", "throttle 0x0"]
        lines += ["pcie 100000 200000", "nvlink 1000 1000", "ecc 0 0 0 0", "bar1 262144M 10M", "persistence on"]
        own = pids[gpu * each : (gpu + 1) * each]
        lines += [f"process compute {pid} {9000 - i}M max max {7 * i}" for i, pid in enumerate(own)]
    return "\n".join([*lines, ""])


@contextlib.contextmanager
def sleepers(count: int) -> Iterator[list[int]]:
    processes = [subprocess.Popen(["sleep", "100000"]) for _ in range(count)]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@dataclass
class Running:
    """A monitor in its own terminal."""

    words: list[str]
    variables: dict[str, str]
    pid: int = 0
    said: bytes = b""
    written: int = 0
    _terminal: int = -1
    _reader: threading.Thread = field(default_factory=threading.Thread)

    def __enter__(self) -> Running:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.execvpe(self.words[0], self.words, {**os.environ, **self.variables})
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            while piece := os.read(self._terminal, 1 << 16):
                self.said = (self.said + piece)[-2000:]
                self.written += len(piece)
                # Terminals answer this query, for which gpustat's terminal library waits.
                if asked := piece.count(WHERE_IS_THE_CURSOR):
                    os.write(self._terminal, CURSOR * asked)

    def answer_ms(self, key: bytes) -> float:
        """Returns the time from a key to the first output that follows it."""
        before = self.written
        begin = time.monotonic()
        os.write(self._terminal, key)
        while self.written == before and time.monotonic() < begin + KEY_PATIENCE_S:
            time.sleep(0.0002)
        return 1000 * (time.monotonic() - begin)

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def __exit__(self, *_: object) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._reader.join(5)
        os.close(self._terminal)

    def cpu_ns(self) -> int:
        total = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):
                total += int((thread / "schedstat").read_text().split()[0])
        return total

    def rss_mib(self) -> float:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def wait(running: Running, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if running.has_ended():
            last = running.said.decode(errors="replace").strip().splitlines()
            raise RuntimeError(f"it ended early: {ascii(last[-1]) if last else 'it said nothing'}")
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))


def measure_cost(words: list[str], variables: dict[str, str], seconds: float) -> Figures:
    with Running(words, variables) as running:
        wait(running, WARM_UP_S)
        begin, cpu = time.monotonic(), running.cpu_ns()
        wait(running, seconds)
        spent = (running.cpu_ns() - cpu) / 1e9 / (time.monotonic() - begin)
        return Figures(100 * spent, running.rss_mib())


def count_calls(
    words: list[str], variables: dict[str, str], gpus: int, period: float, calls: Path
) -> tuple[float, float]:
    """Returns the calls per GPU and refresh, and the relative excess of the period over the requested one."""
    calls.write_text("")
    # The times of queries of device 0's memory; an immediate second query belongs to the same refresh.
    ticks: list[float] = []
    counted = 0
    with Running(words, {**variables, "FAKE_NVML_CALLS": str(calls)}) as running, calls.open() as lines:
        wait(running, WARM_UP_S)
        lines.seek(0, os.SEEK_END)
        end = time.monotonic() + COUNTED_S
        before = 0
        while time.monotonic() < end:
            now = time.monotonic()
            for line in lines.read().splitlines():
                before += line.startswith("nvmlDevice")
                is_tick = line.startswith("nvmlDeviceGetMemoryInfo") and line.endswith(" 0")
                if is_tick and (not ticks or now - ticks[-1] > period / 2):
                    counted += before if ticks else 0  # calls since the previous refresh
                    before = 0
                    ticks.append(now)
            time.sleep(0.004)
    if len(ticks) < 3:
        raise RuntimeError(f"{len(ticks)} refreshes in {COUNTED_S} s")
    real = (ticks[-1] - ticks[0]) / (len(ticks) - 1)
    return counted / (len(ticks) - 1) / gpus, real / period - 1


def measure_keys(words: list[str], variables: dict[str, str], shown: str, folder: Path) -> float:
    """Returns the longest time from a key that opens or closes the help page to its effect, while a call hangs."""
    with Running(words, variables) as running:
        wait(running, 2)
        hanging = folder / "hanging"
        hanging.write_text("hang nvmlDeviceGetMemoryInfo_v2 600000\n" + shown)
        hanging.rename(folder / "scenario")
        wait(running, 3)
        longest = 0.0
        for _ in range(KEYS):
            longest = max(longest, running.answer_ms(b"h"))
            time.sleep(0.1)  # the rest of the output for the previous key
        return longest


def start_to_exit_ms(variables: dict[str, str]) -> float:
    """Returns the median for one `vram status`."""
    times = []
    for _ in range(STARTS):
        begin = time.monotonic()
        subprocess.run(
            [VRAM, "status", "--gpu", "nvml"], env={**os.environ, **variables}, check=True, capture_output=True
        )
        times.append(1000 * (time.monotonic() - begin))
    return statistics.median(times)


def measure(words: list[str], options: argparse.Namespace, variables: dict[str, str], folder: Path) -> Figures:
    figures = measure_cost(words, variables, options.seconds)
    figures.calls, figures.period_error = count_calls(words, variables, options.gpus, options.period, folder / "calls")
    return figures


def environment(folder: Path) -> dict[str, str]:
    return {
        "FAKE_NVML_SCENARIO": str(folder / "scenario"),
        "VRAM_NVML": str(LIBRARY),
        "LD_LIBRARY_PATH": str(LIBRARY.parent),
        "XDG_CONFIG_HOME": str(folder),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--period", type=float, default=1.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--processes", type=int, default=8, help="on each GPU")
    parser.add_argument("monitors", nargs="*", help="names as printed; all that are installed, if none is named")
    options = parser.parse_args()
    if not LIBRARY.exists():
        print(f"{LIBRARY} is missing: build the release with its tests first", file=sys.stderr)
        return 2
    runnable = commands(options.period)
    with tempfile.TemporaryDirectory() as name, sleepers(options.gpus * options.processes) as pids:
        folder = Path(name)
        (folder / "scenario").write_text(scenario(options.gpus, pids))
        print(
            f"{options.gpus} GPUs, {len(pids)} processes, a refresh each {options.period:g} s, {options.seconds:g} s long"
        )
        print(f"{'monitor':<12} {'CPU %':>7} {'RSS MiB':>8} {'calls/GPU':>10} {'period %':>9}")
        for monitor in options.monitors or runnable:
            if monitor not in runnable:
                print(f"{monitor:<12} is not installed")
                continue
            try:
                figures = measure(runnable[monitor], options, environment(folder), folder)
            except RuntimeError as error:
                print(f"{monitor:<12} {error}")
                continue
            cost = f"{monitor:<12} {figures.cpu_percent:>7.3f} {figures.rss_mib:>8.1f}"
            print(f"{cost} {figures.calls:>10.1f} {100 * (figures.period_error or 0):>+9.2f}", flush=True)
        if not options.monitors or "vram status" in options.monitors:
            print(
                f"vram status, start to exit: median of {STARTS} {start_to_exit_ms(environment(folder)):.1f} ms",
                flush=True,
            )
        if not options.monitors or "vram top" in options.monitors:
            shown = (folder / "scenario").read_text()
            longest = measure_keys(runnable["vram top"], environment(folder), shown, folder)
            print(f"key to screen while a call hangs: at most {longest:.1f} ms of {KEYS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

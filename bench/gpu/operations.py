"""Measures requests and frees on an NVIDIA GPU, under the pool and under PyTorch's own allocators; prints Markdown.

    python operations.py [RECORDING…] [--rounds N]

A recording is a PyTorch snapshot (.pickle, .pickle.xz); by default those of demo/. The requests and frees of its device 0
are replayed on one stream per thread, whatever streams were recorded, with no GPU work queued:

    native, expandable   PyTorch's own allocator, with its defaults and with expandable segments
    vram                 the same calls after vram.enable()
    libvram              only the C library, through vram_alloc() and vram_free()

Each variant runs N times in turn, each time in a new process. The figure of a process is the median of five measurements, that
of the table the median over the rounds. A process takes about 10 s. The installed versions of vram and PyTorch are measured.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import lzma
import os
import pickle
import re
import statistics
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "operations.cpp"
DEMO = HERE.parents[1] / "demo"

VARIANTS = ("native", "expandable", "vram", "libvram")
SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING")
THREADED = ("native", "libvram")
THREADS = (1, 2, 4)
SAMPLES = 5
SECONDS = 0.5
ROOM = 2  # threads run in parallel only if this multiple of their requests is free, because blocks leave holes

Rates = dict[str, float]  # operations per second, by the number of threads


class Failed(Exception):
    """A recording cannot be read, or a process failed."""


class BuiltinsOnly(pickle.Unpickler):
    """Loads lists, dicts, texts and numbers only, which snapshots consist of."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds a {module}.{name}, which no snapshot does")


@dataclass
class Sequence:
    """Requests and frees. A slot holds one block at a time; after the last operation, all are free."""

    is_request: array[int] = field(default_factory=lambda: array("B"))
    slots: array[int] = field(default_factory=lambda: array("I"))
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    slot_count: int = 0
    peak_bytes: int = 0


class Recorder:
    """Builds a sequence from events at addresses."""

    def __init__(self) -> None:
        self.sequence = Sequence()
        self._live: dict[int, tuple[int, int]] = {}  # by address: slot, bytes
        self._spare: list[int] = []
        self._bytes = 0

    def request(self, address: int, size: int) -> None:
        self.free(address)  # the recording has lost its free
        if self._spare:
            slot = self._spare.pop()
        else:
            slot = self.sequence.slot_count
            self.sequence.slot_count += 1
        self._live[address] = slot, size
        self._add(True, slot, size)
        self._bytes += _held(size)
        self.sequence.peak_bytes = max(self.sequence.peak_bytes, self._bytes)

    def free(self, address: int) -> None:
        """Does nothing if no block is alive there: it is from before the recording, or this is the second event of a free."""
        if address not in self._live:
            return
        slot, size = self._live.pop(address)
        self._add(False, slot, 0)
        self._spare.append(slot)
        self._bytes -= _held(size)

    def finish(self) -> Sequence:
        for address in list(self._live):
            self.free(address)
        return self.sequence

    def _add(self, is_request: bool, slot: int, size: int) -> None:
        self.sequence.is_request.append(is_request)
        self.sequence.slots.append(slot)
        self.sequence.sizes.append(size)


def _held(size: int) -> int:
    return -(-size // 512) * 512


def read(recording: Path) -> Sequence:
    try:
        with lzma.open(recording) if recording.suffix == ".xz" else open(recording, "rb") as file:
            events = BuiltinsOnly(file).load()["device_traces"][0]
    except (OSError, EOFError, lzma.LZMAError, pickle.UnpicklingError, LookupError, TypeError) as error:
        raise Failed(f"{recording} is no snapshot of PyTorch with a trace of device 0: {error!r}") from error
    return sequence_of(events)


def sequence_of(events: Iterable[dict[str, Any]]) -> Sequence:
    recorder = Recorder()
    for event in events:
        if event["action"] == "alloc":
            recorder.request(event["addr"], event["size"])
        elif event["action"] in ("free_requested", "free_completed"):
            recorder.free(event["addr"])
    sequence = recorder.finish()
    if not sequence.slots:
        raise Failed("its trace of device 0 holds no requests; was history being recorded?")
    return sequence


def compiled(folder: Path) -> Path:
    """Compiles operations.cpp with the command that compiles vram's adapter."""
    import torch

    from vram._library import PACKAGE
    from vram.torch import _adapter
    from vram.torch._toolchain import Torch

    output = folder / "operations.so"
    command = _adapter._command(Torch.installed(torch), folder, PACKAGE / "include", (), output)
    adapter = str(_adapter.SOURCES / "adapter.cpp")
    subprocess.run([str(SOURCE) if word == adapter else word for word in command], check=True)
    return output


# ------------------------------------------------------------------------------------- in its own process


class CSequence(ctypes.Structure):
    """Sequence, of operations.cpp"""

    _fields_ = (
        ("is_request", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("operation_count", ctypes.c_uint64),
        ("slot_count", ctypes.c_uint64),
    )


class Replayer:
    """Runs a sequence on the allocator that this process tests."""

    def __init__(self, library: str, sequence: Sequence, pool: ctypes.c_void_p | None, streams: list[int]) -> None:
        self._replay = ctypes.CDLL(library).operations_replay
        self._replay.restype = ctypes.c_char_p
        self._pool = pool
        self._streams = (ctypes.c_void_p * len(streams))(*streams)
        addresses = [part.buffer_info()[0] for part in (sequence.is_request, sequence.slots, sequence.sizes)]
        self._sequence = CSequence(*addresses, len(sequence.slots), sequence.slot_count)

    def rate(self, threads: int) -> float:
        rates = []
        for _ in range(SAMPLES):
            rate, seconds = ctypes.c_double(), ctypes.c_double(SECONDS)
            sequence = ctypes.byref(self._sequence)
            failure = self._replay(sequence, self._pool, self._streams, threads, seconds, ctypes.byref(rate))
            if failure is not None:
                raise Failed(failure.decode(errors="replace").split("\nException raised from")[0])
            rates.append(rate.value)
        return statistics.median(rates)


def measure(variant: str, library: str, file: str) -> Rates:
    import torch

    import vram
    from vram import _library

    sequence: Sequence = pickle.loads(Path(file).read_bytes())
    _library.library()  # operations.so calls it
    if variant == "vram":
        vram.enable()
    torch.cuda.init()
    torch.zeros(1).cuda()
    free, _ = torch.cuda.mem_get_info()
    streams = [torch.cuda.Stream() for _ in range(max(THREADS))]
    pool = _library.Pool(0).handle if variant == "libvram" else None
    replayer = Replayer(library, sequence, pool, [stream.cuda_stream for stream in streams])
    fitting = [n for n in THREADS if n == 1 or (variant in THREADED and n * ROOM * sequence.peak_bytes <= free)]
    return {str(n): replayer.rate(n) for n in fitting}


# ------------------------------------------------------------------------------------------------- the table


def run(variant: str, library: Path, file: Path) -> Rates:
    words = [sys.executable, __file__, "--measure", variant, str(library), str(file)]
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    if variant == "expandable":
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=280)
    if done.returncode != 0:
        raise Failed(f"{variant} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    rates: Rates = json.loads(done.stdout.splitlines()[-1])
    return rates


def nanoseconds(runs: list[Rates]) -> str:
    return f"{statistics.median(1e9 / rates['1'] for rates in runs):.0f}"


def speedups(runs: list[Rates]) -> str:
    """Returns the ratio to one thread; – if memory was insufficient."""
    cells = []
    for threads in map(str, THREADS[1:]):
        ratios = [rates[threads] / rates["1"] for rates in runs if threads in rates]
        cells.append(f"{statistics.median(ratios):.2f}" if ratios else "–")
    return " / ".join(cells)


def row(recording: Path, library: Path, rounds: int) -> str:
    sequence = read(recording)
    file = library.parent / "sequence"
    file.write_bytes(pickle.dumps(sequence))
    runs: dict[str, list[Rates]] = {variant: [] for variant in VARIANTS}
    for i in range(rounds):
        for variant in VARIANTS if i % 2 == 0 else reversed(VARIANTS):
            runs[variant].append(run(variant, library, file))
    pairs = zip(runs["libvram"], runs["native"], strict=True)
    cells = [
        recording.name,
        f"{len(sequence.slots)}",
        *(nanoseconds(runs[variant]) for variant in VARIANTS),
        f"{statistics.median(ours['1'] / theirs['1'] for ours, theirs in pairs):.2f}",
        speedups(runs["libvram"]),
        speedups(runs["native"]),
    ]
    return "| " + " | ".join(cells) + " |"


def machine() -> str:
    import compare

    from vram import _library

    processors = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    processor = processors[0] if processors else "unknown processor"
    version: bytes = _library.library().vram_version()
    return f"{compare.machine()}; vram {version.decode()}; {processor}, {os.cpu_count()} cores"


HEAD = """\
| recording | operations | native, ns | expandable, ns | vram under PyTorch, ns | libvram, ns | native ÷ libvram | \
libvram, 2 / 4 threads, × | native, 2 / 4 threads, × |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    print(machine() + "\n", flush=True)
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="vram-operations-") as folder:
        library = compiled(Path(folder))
        for recording in wanted.recordings or sorted(DEMO.glob("*.pickle.xz")):
            try:
                print(row(recording, library, wanted.rounds), flush=True)
            except (Failed, subprocess.TimeoutExpired) as failed:
                print(f"{recording}: {failed}", file=sys.stderr, flush=True)
                print(f"| {recording.name} | failed |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main()

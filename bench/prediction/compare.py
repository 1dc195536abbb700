"""Compares a recording of a program with its dry run, allocation by allocation.

    python bench/prediction/compare.py RECORDING [--counters FILE…] [--stop-after 3] [--rows 30] [--csv FILE] SCRIPT [ARGUMENTS…]

RECORDING is PyTorch's memory snapshot (`torch.cuda.memory._snapshot()`, pickle, or pickle.xz) of SCRIPT. The dry run starts to count where
SCRIPT calls `torch.cuda.memory._record_memory_history`, and ends where it asks for a snapshot or for statistics. The two sequences of sizes are
aligned. What differs is printed by operator and line, largest bytes first:

    missing   allocated by the GPU's program, not predicted
    extra     predicted, not allocated
    size      both, with another size

Stacks in the recording, if there are any, name the operator or the line of what is missing.

FILE has what PyTorch's counters said at the end, as JSON: `reserved_peak` (or `peak_reserved`) and the allocator's settings (`conf`);
FILE:NAME is one entry of a file with several. By default it is the file next to the recording. Peaks count from the beginning of the
recording, but for other settings than PyTorch's defaults from the beginning of the program.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import lzma
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from predicted import Block, Sequence, predicted

# Sizes that must agree in a row before the alignment trusts that both sequences are at the same place again.
_RUN = 4
# The longest stretch that only one of the sequences may have.
_MAX_GAP = 3000


def _operator(frames: list[dict[str, Any]]) -> str:
    """Returns the operator and the function in it that allocated, if the recording has C++ stacks."""
    inner = ""
    for frame in frames:
        name = frame["name"].replace("(anonymous namespace)::", "")
        if name.startswith("at::_ops::"):
            return name.split("::")[2] + (f" in {inner}" if inner else "")
        if not inner and name.startswith("at::native::") and "structured" not in name:
            inner = name.removeprefix("at::native::").partition("(")[0]
    return ""


def _line(frames: list[dict[str, Any]]) -> str:
    for frame in frames:
        file = frame["filename"]
        if file.endswith(".py") and not file.endswith("nn/modules/module.py"):
            return f"{'/'.join(Path(file).parts[-2:])}:{frame['line']}"
    return ""


def recorded(path: Path, device: int = 0) -> Sequence:
    """Returns what a snapshot recorded. What lived when the recording began follows from what lives at its end."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        snapshot = pickle.load(file)
    live = {
        block["address"]: block.get("requested_size", block["size"])
        for segment in snapshot["segments"]
        if segment["device"] == device
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }
    trace = [entry for entry in snapshot["device_traces"][device] if entry["action"] in ("alloc", "free_requested")]
    total = sum(live.values())
    for entry in trace:
        total += -entry["size"] if entry["action"] == "alloc" else entry["size"]
    found = Sequence([], total, total)
    blocks = found.blocks
    at: dict[int, Block] = {}
    for number, entry in enumerate(trace):
        if entry["action"] == "alloc":
            frames = entry.get("frames", [])
            block = Block(entry["size"], _operator(frames), _line(frames), born=number)
            blocks.append(block)
            at[entry["addr"]] = block
            total += entry["size"]
            if total > found.peak_bytes:
                found.peak_bytes, found.peak_event = total, number
        else:
            total -= entry["size"]
            ended = at.pop(entry["addr"], None)
            if ended is not None:
                ended.lifetime = number - ended.born
    return found


# ------------------------------------------------------------------------------------------------ dry runs


def _shift(a: list[int], b: list[int], i: int, j: int) -> tuple[int, int]:
    """Returns how much of each sequence to skip until they agree again, the least in total."""
    places: dict[tuple[int, ...], int] = {}
    end = min(len(b) - _RUN, j + _MAX_GAP)
    for place in range(end, j - 1, -1):
        places[tuple(b[place : place + _RUN])] = place
    best = (len(a) - i, len(b) - j)
    best_sum = 2 * _MAX_GAP
    for place in range(i, min(len(a) - _RUN, i + _MAX_GAP) + 1):
        if place - i >= best_sum:
            break
        other = places.get(tuple(a[place : place + _RUN]))
        if other is not None and place - i + other - j < best_sum:
            best, best_sum = (place - i, other - j), place - i + other - j
    return best


def align(a: list[int], b: list[int]) -> Iterator[tuple[range, range]]:
    """Yields the stretches of both sequences between which they agree. Both ends of a yielded pair are aligned."""
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            i, j = i + 1, j + 1
            continue
        skip_a, skip_b = _shift(a, b, i, j)
        yield range(i, i + skip_a), range(j, j + skip_b)
        i, j = i + skip_a, j + skip_b
    if i < len(a) or j < len(b):
        yield range(i, len(a)), range(j, len(b))


@dataclass
class Difference:
    kind: str
    operator: str
    line: str
    count: int = 0
    bytes: int = 0
    largest: int = 0
    sizes: Counter[str] | None = None

    def add(self, size: int, text: str) -> None:
        self.count += 1
        self.bytes += abs(size)
        self.largest = max(self.largest, abs(size))
        self.sizes = self.sizes or Counter()
        self.sizes[text] += 1


def differences(real: Sequence, dry: Sequence) -> tuple[list[Difference], int]:
    """Returns what differs, by operator and line, and how many allocations agree."""
    found: dict[tuple[str, str, str], Difference] = {}

    def note(kind: str, operator: str, line: str, size: int, text: str) -> None:
        key = (kind, operator, line)
        found.setdefault(key, Difference(*key)).add(size, text)

    agreed = len(real.blocks)
    for a, b in align([x.size_bytes for x in real.blocks], [x.size_bytes for x in dry.blocks]):
        agreed -= len(a)
        if b.stop == len(dry.blocks) and a.stop == len(real.blocks) and len(a) > 2 * len(b):
            continue  # the dry run ended before the recording
        before = dry.blocks[b.start - 1].label if b.start else "start"
        missing, extra = [real.blocks[i] for i in a], [dry.blocks[j] for j in b]
        if len(missing) == len(extra):
            for x, y in zip(missing, extra, strict=False):
                note("size", y.label, x.line or y.line, x.size_bytes - y.size_bytes, f"{y.size_bytes}->{x.size_bytes}")
            continue
        # The same sizes in another order are no difference.
        left = Counter(x.size_bytes for x in missing) & Counter(y.size_bytes for y in extra)
        for kind, group in (("missing", missing), ("extra", extra)):
            same = Counter(left)
            for block in group:
                if same[block.size_bytes]:
                    same[block.size_bytes] -= 1
                    continue
                label = block.label if kind == "extra" else block.label or f"after {before}"
                note(kind, label, block.line, block.size_bytes, str(block.size_bytes))
    return sorted(found.values(), key=lambda d: -d.bytes), agreed


def around(real: Sequence, dry: Sequence) -> Iterator[tuple[str, str, list[int], list[int]]]:
    """Yields operator, description, predicted and recorded sizes from each described call's first allocation to the next call's."""
    gaps = {b.start: a for a, b in align([x.size_bytes for x in real.blocks], [x.size_bytes for x in dry.blocks])}
    i = j = 0
    place: dict[int, int] = {}  # of predicted allocations in the recording
    while j < len(dry.blocks) and i < len(real.blocks):
        if j in gaps:
            i = gaps[j].stop
        place[j] = i
        i, j = i + 1, j + 1
    starts = [
        j
        for j, x in enumerate(dry.blocks)
        if j == 0
        or x.call != dry.blocks[j - 1].call
        or x.label.partition(" ")[0] != dry.blocks[j - 1].label.partition(" ")[0]
    ]
    for start, end in itertools.pairwise(starts):
        if dry.blocks[start].call and start in place and end in place:
            sizes = [x.size_bytes for x in real.blocks[place[start] : place[end]]]
            yield dry.blocks[start].label, dry.blocks[start].call, [x.size_bytes for x in dry.blocks[start:end]], sizes


@dataclass(frozen=True)
class Counters:
    """What PyTorch's counters said of a program under one setting of its allocator."""

    name: str
    settings: str  # as in PYTORCH_CUDA_ALLOC_CONF; empty: the defaults
    reserved_peak_bytes: int


def counters(place: str) -> Counters:
    """Reads FILE or FILE:NAME."""
    file, _, name = place.rpartition(":")
    entry = json.loads(Path(file or place).read_text())
    if file:
        entry = entry[name]
    settings = entry["conf"] if entry["conf"] != "none" else ""
    reserved = entry["reserved_peak"] if "reserved_peak" in entry else entry["peak_reserved"]
    return Counters(name if file else entry["name"], settings, reserved)


def reserved_peak(dry: Sequence, trace: Path, settings: str) -> int:
    """Returns the peak of reserved bytes that the dry run predicts."""
    if not settings:
        return dry.reserved_peak_bytes
    from vram.dry import _program

    allocator = f"torch:{settings.replace(':', '=')}"
    return int(_program.replay(trace, allocator, capacity=dry.refused_limit_bytes)["peak_reserved_bytes"])


def error_percent(predicted_bytes: int, recorded_bytes: int) -> float:
    return 100 * (predicted_bytes - recorded_bytes) / max(1, recorded_bytes)


def _print(real: Sequence, dry: Sequence, rows: int) -> None:
    print("requested bytes      recorded       predicted        difference")
    for name, x, y in (("at start", real.start_bytes, dry.start_bytes), ("peak", real.peak_bytes, dry.peak_bytes)):
        print(f"{name:12}{x:18,}{y:16,}{y - x:18,} ({error_percent(y, x):+.3f} %)")
    found, agreed = differences(real, dry)
    print(f"allocations {len(real.blocks):18,}{len(dry.blocks):16,}   {agreed:,} agree")
    for each in found[:rows]:
        sizes = ", ".join(f"{text}×{count}" for text, count in (each.sizes or Counter()).most_common(4))
        print(f"{each.kind:8}{each.count:6}{each.bytes:16,}  {each.operator}  {each.line}  {sizes}")


def _print_alive(real: Sequence, dry: Sequence) -> None:
    """Prints what lives at only one of the two peaks."""
    alive = [Counter(x.size_bytes for x in found.alive_at_peak()) for found in (real, dry)]
    labels = {x.size_bytes: x.label for x in dry.alive_at_peak()}
    print("alive at the peak, recorded only:", sorted((alive[0] - alive[1]).items(), reverse=True)[:12])
    extra = sorted((alive[1] - alive[0]).items(), reverse=True)[:12]
    print("alive at the peak, predicted only:", [(size, count, labels[size]) for size, count in extra])


def _print_calls(real: Sequence, dry: Sequence) -> None:
    shown = Counter(json.dumps(each) for each in around(real, dry))
    for text, count in shown.items():
        label, call, sizes, real_sizes = json.loads(text)
        print(f"CALL ×{count} {label}\n  {call}\n  predicted {sizes}\n  recorded  {real_sizes}")


def row(half: str, real: Sequence, dry: Sequence, counted: Counters, reserved: int) -> list[Any]:
    """Returns a row of errors.csv."""
    return [
        counted.name,
        half,
        counted.settings,
        real.peak_bytes,
        dry.peak_bytes,
        f"{error_percent(dry.peak_bytes, real.peak_bytes):+.3f}",
        counted.reserved_peak_bytes,
        reserved,
        f"{error_percent(reserved, counted.reserved_peak_bytes):+.3f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--stop-after", type=int, default=0)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--calls", default="", help="print each call of the operators with this in their names")
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--torch", default="2.11.0", help="the PyTorch that made the recording")
    parser.add_argument("--counters", action="append", metavar="FILE[:NAME]", help="may be repeated")
    parser.add_argument("--csv", type=Path, help="append a row for each of the counters to this file")
    parser.add_argument("--half", default="choose")
    parser.add_argument("--assume", action="append", default=[], metavar="FILE:LINE=VALUE")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    wanted = parser.parse_args()
    started = time.time()
    assume = {
        line: float(value) if "." in value else int(value)
        for line, _, value in (a.rpartition("=") for a in wanted.assume)
    }
    found = [counters(place) for place in wanted.counters or _beside(wanted.recording)]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "dry.vtrace"
        dry = predicted(
            wanted.script, wanted.arguments, wanted.gpu, wanted.torch, trace, wanted.stop_after, assume, wanted.calls
        )
        seconds = time.time() - started
        reserved = [reserved_peak(dry, trace, each.settings) for each in found]
    real = recorded(wanted.recording)
    _print(real, dry, wanted.rows)
    if real.peak_bytes != dry.peak_bytes:
        _print_alive(real, dry)
    if wanted.calls:
        _print_calls(real, dry)
    for counted, peak in zip(found, reserved, strict=True):
        text = f"{counted.reserved_peak_bytes:,} recorded, {peak:,} predicted"
        print(
            f"reserved ({counted.settings or 'defaults'}) {text} ({error_percent(peak, counted.reserved_peak_bytes):+.3f} %)"
        )
    print(f"dry run: {seconds:.1f} s")
    if wanted.csv:
        with wanted.csv.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(row(wanted.half, real, dry, *each) for each in zip(found, reserved, strict=True))


def _beside(recording: Path) -> list[str]:
    """Returns the file with the counters of a recording, if there is one."""
    file = recording.with_name(recording.name.removesuffix(".xz").removesuffix(".pickle") + ".json")
    return [str(file)] if file.exists() else []


if __name__ == "__main__":
    main()

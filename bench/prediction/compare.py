"""Compares a recording of a program with its dry run, allocation by allocation.

    python bench/prediction/compare.py RECORDING [--stop-after 3] [--rows 30] [--csv FILE] -- SCRIPT [ARGUMENTS…]

RECORDING is PyTorch's memory snapshot (`torch.cuda.memory._snapshot()`, pickle, or pickle.xz) of SCRIPT. The dry run starts to count where
SCRIPT calls `torch.cuda.memory._record_memory_history`, and ends where it asks for a snapshot or for statistics. The two sequences of sizes are
aligned. What differs is printed by operator and line, largest bytes first:

    missing   allocated by the GPU's program, not predicted
    extra     predicted, not allocated
    size      both, with another size

Stacks in the recording, if there are any, name the operator or the line of what is missing.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import lzma
import os
import pickle
import runpy
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Sizes that must agree in a row before the alignment trusts that both sequences are at the same place again.
_RUN = 4
# The longest stretch that only one of the sequences may have.
_MAX_GAP = 3000


@dataclass
class Block:
    """One allocation: its bytes, who made it, and how many events of its sequence it lived."""

    size_bytes: int
    label: str
    line: str = ""
    call: str = ""
    born: int = 0
    lifetime: int | None = None


@dataclass
class Sequence:
    """The allocations of a program in their order, and the peak of requested bytes."""

    blocks: list[Block]
    peak_bytes: int
    start_bytes: int
    peak_event: int = 0

    def alive_at_peak(self) -> list[Block]:
        """Returns the blocks of the sequence that lived when the peak was reached."""
        at = self.peak_event
        return [x for x in self.blocks if x.born <= at and (x.lifetime is None or x.born + x.lifetime > at)]


# ------------------------------------------------------------------------------------------------ recordings


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


class _Finished(BaseException):
    """Ends the script."""


def _users_line() -> str:
    """Returns the innermost line that is neither of PyTorch's nor of vram's."""
    frame = sys._getframe(1)
    while frame is not None and (
        "/torch/" in (name := frame.f_code.co_filename) or "/vram/" in name or name == __file__
    ):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{'/'.join(Path(frame.f_code.co_filename).parts[-2:])}:{frame.f_lineno}"


class Log:
    """Stands in for vram.dry._tape.Tape: keeps the allocations instead of writing a trace."""

    def __init__(self, _path: Path) -> None:
        from vram.dry._tape import Counter as Counted

        self.counters: dict[int, Any] = defaultdict(Counted)
        self.label = self.call = ""
        self._live: dict[int, Block] = {}
        self._next = 1 << 40
        self._events = 0
        self._total = 0
        self.restart()

    def restart(self) -> None:
        """Starts to count here; what lives, stays."""
        self.found = Sequence([], self._total, self._total)

    def allocate(self, device: int, size_bytes: int, _stream: int) -> int:
        self._events += 1
        self._next += 512
        block = Block(size_bytes, self.label, _users_line(), self.call, self._events)
        self.found.blocks.append(block)
        self._live[self._next] = block
        self._total += size_bytes
        self.counters[device].add(size_bytes)
        if self._total > self.found.peak_bytes:
            self.found.peak_bytes, self.found.peak_event = self._total, self._events
        return self._next

    def free(self, device: int, address: int, size_bytes: int, _stream: int) -> None:
        self._events += 1
        block = self._live.pop(address)
        block.lifetime = self._events - block.born
        self._total -= size_bytes
        self.counters[device].add(-size_bytes)

    def name(self, *_ignored: Any) -> None: ...
    def about(self, *_ignored: Any) -> None: ...
    def close(self) -> None: ...


class _NoScopes:
    """Stands in for vram.dry._scopes.Scopes: names of modules are not needed here."""

    steps = 0

    def __init__(self, _after_step: Callable[[int], None]) -> None: ...
    def put_in_place(self, _patches: Any) -> None: ...
    def stop(self) -> None: ...


def predicted(
    script: str,
    arguments: list[str],
    gpu: str,
    torch_version: str,
    stop_after: int = 0,
    assume: dict[str, Any] | None = None,
    calls: str = "",
) -> Sequence:
    """Returns what the dry run of a script predicts.

    Args:
        stop_after: ends the script after so many steps of its optimizers; 0: when it ends.
        calls: describes the calls of operators with this in their names.
    """
    import torch
    from journal import describe
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from vram.dry._gpu import find_gpu

    from vram.dry import _mode, _session

    logs: list[Log] = []

    def new_log(path: Path) -> Log:
        logs.append(Log(path))
        return logs[-1]

    account, allocate = _mode.DryMode.account, _mode.DryMode._allocate

    def labelled(mode: Any, func: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        logs[0].label = str(func)
        if calls and calls in logs[0].label:
            logs[0].call = json.dumps({"args": describe(args), "kwargs": describe(kwargs), "out": describe(outputs)})
        else:
            logs[0].call = ""
        account(mode, func, args, kwargs, outputs)

    def inside(mode: Any, device: int, stream: int, found: Any) -> Any:
        before = logs[0].label
        logs[0].label = f"{before} [{found.purpose}]"
        try:
            return allocate(mode, device, stream, found)
        finally:
            logs[0].label = before

    def finish(*_arguments: Any, **_named: Any) -> Any:
        raise _Finished

    steps = [0]

    def stepped(*_arguments: Any) -> None:
        steps[0] += 1
        if steps[0] == stop_after:
            raise _Finished

    session_module: Any = _session
    session_module.Tape, session_module.Scopes = new_log, _NoScopes
    mode_class: Any = _mode.DryMode
    mode_class.account, mode_class._allocate = labelled, inside
    session = _session.Session(find_gpu(gpu), Path(os.devnull), assume or {}, 1, torch_version)
    session.enter()
    memory: Any = torch.cuda.memory
    memory._record_memory_history = lambda *_arguments, **_named: logs[0].restart()
    memory._snapshot = torch.cuda.memory_stats = finish
    register_optimizer_step_post_hook(stepped)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Finished:
        pass
    except Exception:
        traceback.print_exc()
        print("the script failed; what follows is about its allocations until then")
    found = logs[0].found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.leave()
    if session.unknown_operators:
        print("operators without rules:", ", ".join(sorted(session.unknown_operators)))
    return found


# ------------------------------------------------------------------------------------------------ alignment


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


def _print(real: Sequence, dry: Sequence, rows: int) -> None:
    print("requested bytes      recorded       predicted        difference")
    for name, x, y in (("at start", real.start_bytes, dry.start_bytes), ("peak", real.peak_bytes, dry.peak_bytes)):
        print(f"{name:12}{x:18,}{y:16,}{y - x:18,} ({100 * (y - x) / max(1, x):+.3f} %)")
    found, agreed = differences(real, dry)
    print(f"allocations {len(real.blocks):18,}{len(dry.blocks):16,}   {agreed:,} agree")
    for each in found[:rows]:
        sizes = ", ".join(f"{text}×{count}" for text, count in (each.sizes or Counter()).most_common(4))
        print(f"{each.kind:8}{each.count:6}{each.bytes:16,}  {each.operator}  {each.line}  {sizes}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path)
    parser.add_argument("--stop-after", type=int, default=0)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--calls", default="", help="print each call of the operators with this in their names")
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--torch", default="2.11.0", help="the PyTorch that made the recording")
    parser.add_argument("--csv", type=Path, help="append a row with the peaks to this file")
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
    dry = predicted(wanted.script, wanted.arguments, wanted.gpu, wanted.torch, wanted.stop_after, assume, wanted.calls)
    seconds = time.time() - started
    real = recorded(wanted.recording)
    _print(real, dry, wanted.rows)
    if real.peak_bytes != dry.peak_bytes:
        alive = [Counter(x.size_bytes for x in found.alive_at_peak()) for found in (real, dry)]
        labels = {x.size_bytes: x.label for x in dry.alive_at_peak()}
        print("alive at the peak, recorded only:", sorted((alive[0] - alive[1]).items(), reverse=True)[:12])
        extra = sorted((alive[1] - alive[0]).items(), reverse=True)[:12]
        print("alive at the peak, predicted only:", [(size, count, labels[size]) for size, count in extra])
    if wanted.calls:
        shown = Counter(json.dumps(each) for each in around(real, dry))
        for text, count in shown.items():
            label, call, sizes, real_sizes = json.loads(text)
            print(f"CALL ×{count} {label}\n  {call}\n  predicted {sizes}\n  recorded  {real_sizes}")
    print(f"dry run: {seconds:.1f} s")
    if wanted.csv:
        with wanted.csv.open("a", newline="") as file:
            error = 100 * (dry.peak_bytes - real.peak_bytes) / real.peak_bytes
            row = [
                wanted.recording.name.removesuffix(".pickle.xz"),
                wanted.half,
                real.peak_bytes,
                dry.peak_bytes,
                f"{error:+.3f}",
            ]
            csv.writer(file, lineterminator="\n").writerow(row)


if __name__ == "__main__":
    main()

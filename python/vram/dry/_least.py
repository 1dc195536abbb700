"""The least memory with which a program runs, found by replays of its trace.

More is not always enough: the allocator divides what it has differently, and a program that continues with less where a request fails can run
with less than what it fails with. So after a search for an amount that suffices, amounts above it are tried, and the least is above all that fail.

Which of two equal free blocks PyTorch's allocator takes depends on the addresses that the driver gives to segments, and so on all that the process
maps, which a dry run can't know. So each amount has to suffice with several layouts of addresses, most of them random. With the addresses of a
real run, replays put each block where it was: histories of nine programs near their least memory on an H200, six of which ran out of it.

With expandable segments, a memory fraction (torch.cuda.set_per_process_memory_fraction) is another limit than a GPU of this size. PyTorch compares it
with what is reserved and the whole request, of which it may have to map only a part; but it maps whole pages, which may exceed the fraction. So each
amount has to suffice as both.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vram.dry import _program
from vram.dry._allocator import expands, is_torch

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# The amounts that have to suffice: the least, and so much more, in steps of half a percent of what the search found. Of small programs that is less
# than the margin of run.fits (_results.py), and what that comes to has to suffice, too.
_PROBED = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12)
_PROBED_BYTES = range(16 << 20, 97 << 20, 16 << 20)
_STEPS = 200  # so many steps are as much as the search found
_SEARCHED_BYTES = 2 << 20  # between what suffices and what does not, after a search
_MOST_STEPS = _STEPS  # no trace is known to need more than twice that
# A fraction of a GPU that is large enough for the pages that exceed the fraction.
_FRACTION, _GPU_OF_FRACTION = "per_process_memory_fraction=0.5", 2


@dataclass(frozen=True)
class _Case:
    """What has to complete: a trace, with an allocator on a GPU of so many times the amount."""

    trace: Path
    allocator: str
    times: int = 1
    device: int | None = None

    def replay(self, **options: Any) -> dict[str, Any]:
        of_device: dict[str, Any] = {} if self.device is None else {"device": self.device}
        return _program.replay(self.trace, self.allocator, **options, **of_device)

    def share_completed(self, capacity: int) -> float:
        """Return the share of the layouts of addresses with which it completes."""
        result = self.replay(capacity=self.times * capacity)
        return result["layouts_completed"] / result["layouts_tried"] if result["completed"] else 0.0


class Least(NamedTuple):
    """The least that the allocator may reserve for the requests of a trace, with which all amounts that were tried above it suffice, too.

    `failed_bytes` is the largest amount that was tried and does not suffice.
    """

    size_bytes: int
    failed_bytes: int


def least(trace: Path, allocator: str, device: int | None = None) -> Least:
    """Return the least memory for a trace; of several devices, it is that of `device`."""
    with _replayed(trace, allocator, device) as (case, threads):
        # With it a trace completes, and does not with 2 MiB less.
        found = int(case.replay(finds_capacity=True)["min_capacity_bytes"])
        return _Probes(_cases(case), found, threads).least()


def shares_completed(trace: Path, allocator: str, capacities: Sequence[int], device: int | None = None) -> list[float]:
    """Return the share of the layouts of addresses with which a trace completes, for each amount that the allocator may reserve.

    Of several devices, it is that of `device`.
    """
    with _replayed(trace, allocator, device) as (whole, threads):
        cases = _cases(whole)
        return [*threads.map(lambda capacity: min(case.share_completed(capacity) for case in cases), capacities)]


@contextlib.contextmanager
def _replayed(trace: Path, allocator: str, device: int | None) -> Iterator[tuple[_Case, ThreadPoolExecutor]]:
    """Make what is replayed of a trace, with threads for replays."""
    # The package is also imported when a program ends, and then threads cannot be set up any more.
    from concurrent.futures import ThreadPoolExecutor

    with tempfile.TemporaryDirectory(prefix="vram-dry-") as name, ThreadPoolExecutor(os.cpu_count()) as threads:
        folder = Path(name)
        unplaced = _unplaced(trace, folder) if is_placed_by_driver(allocator) else _compact(trace, folder)
        yield _Case(unplaced, allocator, device=device), threads


def _cases(case: _Case) -> list[_Case]:
    """Return the limits with which a trace has to complete: the end of the memory, and a memory fraction where that differs."""
    if not expands(case.allocator) or "per_process_memory_fraction" in case.allocator:
        return [case]
    return [case, replace(case, allocator=f"{case.allocator},{_FRACTION}", times=_GPU_OF_FRACTION)]


def is_placed_by_driver(allocator: str) -> bool:
    """Whether addresses from the driver decide which blocks the allocator takes, as with PyTorch's without expandable segments."""
    return is_torch(allocator) and not expands(allocator)


def _unplaced(trace: Path, folder: Path) -> Path:
    """Return the trace without segments, whose addresses replays would take."""
    lines = trace
    if not _is_text(trace):
        lines = folder / "whole.jsonl"
        _program.convert(trace, lines)
    path = folder / "unplaced.jsonl"
    with lines.open() as events, path.open("w") as kept:
        kept.writelines(event for event in events if not json.loads(event)["action"].startswith("segment_"))
    return _compact(path, folder)


def _compact(trace: Path, folder: Path) -> Path:
    """Return the trace as a .vtrace file, which replays read faster than the text of the same trace."""
    if not _is_text(trace):
        return trace
    path = folder / f"{trace.stem}.vtrace"
    _program.convert(trace, path)
    return path


def _is_text(trace: Path) -> bool:
    """Whether a trace is lines of JSON, and no .vtrace file, which the user may call as they like."""
    if trace.suffix != ".jsonl":
        return False
    with trace.open("rb") as file:
        return file.read(1) == b"{"


class _Probes:
    """Replays of traces with amounts of memory: a number of steps more than the search found."""

    def __init__(self, cases: Iterable[_Case], found: int, threads: ThreadPoolExecutor) -> None:
        self._found, self._threads = found, threads
        # From how many bytes on each case is known to complete.
        self._enough: dict[_Case, float] = dict.fromkeys(cases, math.inf)
        self._known: dict[int, bool] = {}  # whether all complete, by steps
        beyond = [-(-more_bytes * _STEPS // found) for more_bytes in _PROBED_BYTES]
        self._probed = (*_PROBED, *(steps for steps in beyond if steps > _PROBED[-1]))

    def least(self) -> Least:
        least = 0
        while least < _MOST_STEPS:
            # From above: where one fails, all below it are too little.
            failed = next((step for step in reversed(self._probed) if not self._suffices(least + step)), None)
            if failed is None:
                break
            least += failed + 1
        return Least(self._bytes(least), self._bytes(least - 1) if least else self._found - _SEARCHED_BYTES)

    def _bytes(self, steps: int) -> int:
        return self._found * (_STEPS + steps) // _STEPS

    def _suffices(self, steps: int) -> bool:
        if steps not in self._known:
            capacity = self._bytes(steps)
            asked = [
                self._threads.submit(self._completes, case, capacity)
                for case, enough in self._enough.items()
                if capacity < enough
            ]
            self._known[steps] = all(each.result() for each in asked)
            for each in asked:  # that has not begun after one failed
                each.cancel()
        return self._known[steps]

    def _completes(self, case: _Case, capacity: int) -> bool:
        result = case.replay(capacity=case.times * capacity)
        layouts, completed = result["layouts_tried"], result["layouts_completed"]
        if completed == layouts == 1 and not result["retries"] and not result["caught_ooms"]:
            self._enough[case] = min(self._enough[case], self._unrestricted_bytes(case, capacity, result))
        return bool(result["completed"]) and completed == layouts

    @staticmethod
    def _unrestricted_bytes(case: _Case, capacity: int, result: dict[str, Any]) -> float:
        """Return from how many bytes on a replay is the same as this one, in which no request failed, and nothing was released."""
        if not is_torch(case.allocator) or "garbage_collection" in case.allocator:
            return math.inf
        # More than is reserved is compared with a memory fraction.
        return float(capacity if expands(case.allocator) else result["peak_reserved_bytes"])

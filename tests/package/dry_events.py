"""What a program allocates and frees: on the CPU for real, as PyTorch's profiler saw it, and in a dry run."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import DryRun, _kernels, _tape, dry_run

Events = list[int]  # in order: bytes of each allocation, or minus the bytes of each free
Program = Callable[[str], Any]  # gets the device


def real_events(program: Program) -> Events:
    """On the CPU, without any mode of PyTorch's: what its allocator did."""
    gc.collect()
    with torch.profiler.profile(profile_memory=True) as profiler:
        kept = program("cpu")
    del kept
    found = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    return [event.nbytes() for event in sorted(found, key=lambda event: event.start_ns())]


class Tape:
    """The events of a dry run, taken as they are recorded, without rules for kernels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: Events = []
        allocate, free = _tape.Tape.allocate, _tape.Tape.free

        def allocated(tape: _tape.Tape, device: int, size_bytes: int, *rest: Any) -> int:
            self.events.append(size_bytes)
            return allocate(tape, device, size_bytes, *rest)

        def freed(tape: _tape.Tape, device: int, address: int, size_bytes: int, stream: int) -> None:
            self.events.append(-size_bytes)
            free(tape, device, address, size_bytes, stream)

        # What kernels for a GPU allocate inside, those for the CPU do not.
        monkeypatch.setattr(_kernels.Kernels, "allocations", lambda _kernels, _call: ())
        monkeypatch.setattr(_tape.Tape, "allocate", allocated)
        monkeypatch.setattr(_tape.Tape, "free", freed)

    def run(self, program: Program, path: Path, **options: Any) -> DryRun:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with dry_run(path=path / "dry.vtrace", **options) as run:
                gc.collect()
                self.events.clear()
                kept = program("cuda")
                self.at_end = list(self.events)
            del kept
        return run


def peak(events: Events) -> int:
    live = most = 0
    for event in events:
        live += event
        most = max(most, live)
    return most

"""The peak of one test's GPU memory: by PyTorch's counters on a GPU, or by a dry run."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import vram
from pytest_vram._gate import MEASURED, PREDICTED
from vram import VramError, dry_run, is_recording
from vram._frameworks._torch import TorchFramework
from vram._texts import tr
from vram.dry import _program, _values
from vram.monitoring import _peaks

_LISTED = 3
# The folders of this package and of vram: in a source tree they are not among the installed packages.
_OWN = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, vram.__file__))
_INSTALLED = ("/site-packages/", "/dist-packages/")
_MAX_EVENTS = 1_000_000  # of a test's history; about 300 MB


@dataclass(frozen=True)
class Holder:
    """What one line holds at the peak."""

    name: str
    bytes: int
    blocks: int


class GpuPeak:
    """On a GPU. PyTorch records the allocations of a test with a limit, so that a failure can name lines."""

    def __init__(self, *, finds_holders: bool) -> None:
        # Before PyTorch has initialized CUDA, _cuda_isHistoryEnabled() crashes.
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._finds_holders = finds_holders and not torch._C._cuda_isHistoryEnabled() and not is_recording()
        self._framework = TorchFramework(torch)
        self._before: dict[int, int] = {}  # bytes, by device
        self._peaks: dict[int, _peaks.PeakOf] = {}
        self._ended: int | None = None
        self._snapshot: Path | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.mode = MEASURED.format(torch.cuda.get_device_name())

    def begin(self) -> None:
        gc.collect()  # what an earlier test left is not freed within this one
        for device in self._framework.devices():
            self._begin(device)
        if self._finds_holders:
            try:
                torch.cuda.memory._record_memory_history(
                    "all", context="alloc", stacks="python", max_entries=_MAX_EVENTS
                )
            except RuntimeError:  # allocators that are put under PyTorch have no history
                self._finds_holders = False

    def _begin(self, device: int) -> None:
        peak = self._peaks[device] = _peaks.PeakOf()
        self._before[device] = _peaks.begin(self._framework, device, peak, reset=True).allocated_bytes or 0

    def assuming(self, _value: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # here, the values are there

    def peak_bytes(self) -> int:
        if self._ended is not None:
            return self._ended
        largest = 0
        for device in self._framework.devices():
            figures = _peaks.current(self._framework, device)
            peak = self._peaks[device].allocated if device in self._peaks else figures.peak_allocated_bytes
            largest = max(largest, (peak or 0) - self._before.get(device, 0))
        return largest

    def end(self) -> None:
        peak_bytes = self.peak_bytes()
        for device, peak in self._peaks.items():
            _peaks.end(self._framework, device, peak)
        self._ended = peak_bytes
        if self._finds_holders:
            with contextlib.suppress(Exception):  # without it, a failure names no lines
                self._folder = tempfile.TemporaryDirectory(prefix="vram-pytest-")
                path = Path(self._folder.name) / "test.pickle"
                torch.cuda.memory._dump_snapshot(str(path))  # type: ignore[no-untyped-call]
                self._snapshot = path
            torch.cuda.memory._record_memory_history(None)

    def holders(self) -> list[Holder] | str:
        """Return the largest holders at the peak; or why they are unknown."""
        if self._snapshot is None:
            return tr(
                "its holders are unknown, since PyTorch's history of allocations is in use already, "
                "or its allocator has none"
            )
        return _largest(self._snapshot)


class DryRunPeak:
    """In a dry run, which needs no GPU: what is on the GPU has no memory and no values."""

    def __init__(self, gpu: str, assumed: Mapping[str, Any]) -> None:
        self._run = dry_run(gpu, assume=assumed)
        self._run._settings = replace(self._run._settings, has_stacks=True)
        self._entered = contextlib.ExitStack()
        self._ended: int | None = None
        self.mode = PREDICTED.format(gpu)

    def begin(self) -> None:
        self._entered.enter_context(self._run)
        _values.runs_as = "test"
        torch.cuda.reset_peak_memory_stats()  # a dry run begins with some operators of its own

    def assuming(self, value: Any) -> contextlib.AbstractContextManager[None]:
        return self._run.assume(value)

    def peak_bytes(self) -> int:
        if self._ended is not None:
            return self._ended
        return max(int(torch.cuda.max_memory_allocated(device)) for device in range(torch.cuda.device_count()))

    def end(self) -> None:
        peak_bytes = self.peak_bytes()
        _values.runs_as = "run"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is estimated is reserved memory, which has no limit here
            self._entered.close()
        self._ended = peak_bytes

    def holders(self) -> list[Holder] | str:
        """Return the largest holders at the peak; or why they are unknown."""
        return _largest(self._run.trace_path)


def _largest(recording: Path) -> list[Holder] | str:
    try:
        moment = _program.moment(recording)
    except (VramError, OSError) as error:
        return tr("its holders are unknown: {}").format(error)
    by_stack: list[dict[str, Any]] = next((b["holders"] for b in moment["breakdowns"] if b["by"] == "stack"), [])
    holders: dict[str, Holder] = {}
    for holder in by_stack:
        name = _place(holder["stack"]) or holder["name"]
        known = holders.get(name, Holder(name, 0, 0))
        holders[name] = Holder(name, known.bytes + holder["requested_bytes"], known.blocks + holder["count"])
    return sorted(holders.values(), key=lambda each: -each.bytes)[:_LISTED]


def _place(stack: list[dict[str, Any]]) -> str | None:
    """Return the innermost line outside of vram and of installed packages; without one, the innermost outside of vram."""
    outside = [frame for frame in stack if frame["line"] and not frame["file"].startswith(_OWN)]
    users = [frame for frame in outside if not any(folder in frame["file"] for folder in _INSTALLED)]
    for frame in [*users, *outside][:1]:
        return f"{os.path.relpath(frame['file'])}:{frame['line']} {frame['function']}"
    return None

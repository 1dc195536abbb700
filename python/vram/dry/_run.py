"""A program's own training step on tensors without memory, and what its trace shows."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr
from vram.dry import _at_limit, _edited, _least, _program
from vram.dry._gpu import Gpu
from vram.dry._interrupts import Interrupts
from vram.dry._placement import MAX_BYTES
from vram.dry._results import (
    DryRunContribution,
    DryRunFits,
    DryRunPeak,
    contributions,
    error_of,
    fits_near,
    fits_on,
    module_of,
)

if TYPE_CHECKING:
    from vram.dry._models import Parameter
    from vram.dry._session import Session


@dataclass(frozen=True)
class Settings:
    """How to run; the arguments of vram.dry_run()."""

    gpu: Gpu
    allocator: str
    assume: Mapping[str, Any]
    world_size: int
    torch_version: str | None
    raise_oom: bool
    has_stacks: bool = False  # of allocations, in the trace


def _remove(folder: str, process: int) -> None:
    """Delete a folder in the process that made it, and not in one that was forked and ends before."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _state(path: Path) -> Any:
    """What is different for another file of this name."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


Run = TypeVar("Run", bound="TracedRun")


class TracedRun:
    """One run of a program on tensors without memory, and the results that its trace has. They exist once the ``with`` statement has ended."""

    def __init__(self, settings: Settings, path: Path | None = None) -> None:
        self._settings = settings
        # The program may change its folder.
        self._path = self._temporary() if path is None else Path(os.path.abspath(path))
        self._ran_out = False
        self._error: str | None = None  # that the program ended with, if it is another one
        self._session: Session | None = None
        self._interrupts = Interrupts()
        self._is_done = False
        self._file: Any = None  # the state of the trace as the run ended; None: it is no file of the user's
        self._parameters: dict[str, Parameter] = {}
        self._least: dict[tuple[Path, str], _least.Least] = {}  # by trace and allocator

    @property
    def trace_path(self) -> Path:
        """The trace: a ``.vtrace`` file for ``vram report``, ``vram replay`` and the other commands."""
        return self._path

    @property
    def steps(self) -> int:
        """How often the optimizer has stepped; of several optimizers, the one that stepped first."""
        return self._running().steps

    @property
    def has_requests(self) -> bool:
        """Whether the program has requested memory of the GPU; without, there are no results."""
        return self._running().has_requests

    @property
    def unknown_operators(self) -> dict[str, str]:
        """The operators whose kernels may allocate memory that no rule predicts, with the line that used each first."""
        return dict(self._running().unknown_operators)

    @property
    def peak_outside_optimizer_bytes(self) -> int:
        """The most that was requested at one time outside of the steps of optimizers, which grows with the batch."""
        return self._running().peak_outside_optimizer_bytes

    @property
    def estimated_operators(self) -> dict[str, str]:
        """The operators whose workspaces are estimated, with the line that used each first: convolutions and recurrent layers."""
        return dict(self._running().estimated_operators)

    @property
    def largest_sizes(self) -> dict[str, int]:
        """By line: the elements of results whose sizes depend on values of the GPU (nonzero(), boolean masks, unique()), and which count as the largest possible.

        Another size is stated by `assume`, for the same line.
        """
        return dict(self._running().largest_sizes)

    @property
    def relative_error(self) -> float:
        """The standard deviation of the least memory that the program is predicted to need, as a share of it."""
        session = self._running()
        spared, convolutions = None, session.kernels.convolutions
        if session.smaller and not convolutions.are_answered:
            spared = self._least_bytes(self._path) - self._least_bytes(self._path_at_limit)
        return error_of(
            self._needed_bytes,
            session.estimated_bytes,
            spared,
            session.unknown_bytes if self.unknown_operators else None,
            is_described=session.has_convolutions and convolutions.are_answered and not convolutions.are_exact,
            is_fixed=not session.has_convolutions and not session.smaller,
            tries_layouts=session.refused_limit_bytes is None and _least.is_placed_by_driver(self._settings.allocator),
        )

    def knows_setting(self, name: str) -> bool:
        """Whether the rules of kernels depend on this setting of the program."""
        return name in self._running().kernels.constants

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call `call` after each step of the optimizer, with the number of its steps."""
        self._running().on_step = call

    def ending_with(self, error: type[BaseException]) -> contextlib.AbstractContextManager[Callable[[], None]]:
        """Return a context manager for the program, with a function by which another thread ends it in the main thread."""
        return self._interrupts.ending_with(error)

    @contextlib.contextmanager
    def assume(self, value: Any) -> Iterator[None]:
        """Assume a value, or a size that depends on values, for what the ``with`` block reads from the GPU.

        Args:
            value: What item() answers; or the number of elements of the result (nonzero(), boolean masks), or its share of the
                largest possible number (a float from 0 to 1).
        """
        with self._running().values.assuming(value):
            yield

    @cached_property
    def peak(self) -> DryRunPeak:
        """The predicted peaks."""
        result = self._replayed
        reserved = result["peak_reserved_bytes"]
        return DryRunPeak(result["peak_requested_bytes"], reserved, reserved + self._running().outside_bytes)

    @cached_property
    def fits(self) -> DryRunFits:
        """Whether the program fits on the GPU. "Yes" leaves a margin for the error of the prediction."""
        needed = self._needed_bytes
        if self._error is not None:
            warnings.warn(
                tr("the program ended with {}, so the results are about what ran until then").format(self._error),
                stacklevel=3,
            )
        elif self._running().lacks_states:
            warnings.warn(
                tr(
                    "the optimizer stepped once, and its states exist from then on; what they add to forward and backward is not predicted: "
                    "run two steps"
                ),
                stacklevel=3,
            )
        total = self._settings.gpu.total_bytes
        if self._ran_out:
            return DryRunFits(0.0, needed, total)
        allowed = self._running().allowed_bytes
        return self.fits_within(total if allowed is None else min(total, allowed), self.relative_error)

    def fits_within(self, total_bytes: int, relative_error: float) -> DryRunFits:
        """Return whether the program fits with so much memory, context and modules included, if its least memory has this standard deviation."""
        if self._running().refused_limit_bytes is not None:
            return fits_on(total_bytes, self._needed_bytes, relative_error)

        def shares_completed(totals: list[int]) -> list[float]:
            self._finished()  # the trace is that of this run
            capacities = [total - self._running().outside_bytes for total in totals]
            of_devices = (
                _least.shares_completed(self._path_at_limit, self._settings.allocator, capacities, device)
                for device in self._replayed_devices
            )
            return [*map(min, zip(*of_devices))]

        failed_bytes = self._least_of(self._path_at_limit).failed_bytes + self._running().outside_bytes
        return fits_near(total_bytes, self._needed_bytes, relative_error, shares_completed, failed_bytes)

    def report(self) -> str:
        """Return the report of the trace, as ``vram report`` prints it."""
        self._finished()
        return _program.report(self._path)

    def by_module(self, depth: int | None = None) -> dict[str, dict[str, int]]:
        """Return the requested bytes at their peak by module and category, largest module first.

        Args:
            depth: How many parts of the modules' names to keep ("layers.7" has 2); None: all.
        """
        modules: dict[str, dict[str, int]] = {}
        for part in self._contributions:
            name = module_of(part, depth)
            of_module = modules.setdefault(name, {})
            of_module[part.category] = of_module.get(part.category, 0) + part.requested_bytes
        return dict(sorted(modules.items(), key=lambda item: -sum(item[1].values())))

    def _another(self: Run) -> Run:
        """Return a run with the same settings that has not begun."""
        return type(self)(self._settings)

    def _with_other_blocks(self: Run, resize: _edited.Resize, extra_bytes: int) -> Run:
        """Return the results of this run with other sizes of blocks, and a block that is there all the time."""
        other = self._another()
        other._session, other._is_done = self._session, self._is_done
        other._ran_out, other._error = self._ran_out, self._error
        other._parameters = self._parameters
        other._path = other._path.with_suffix(".jsonl")
        _edited.write(self._path, other._path, resize, extra_bytes)
        other._path_at_limit = other._path
        if self._path_at_limit != self._path:
            other._path_at_limit = other._path.with_name("at_limit.jsonl")
            _edited.write(self._path_at_limit, other._path_at_limit, resize, extra_bytes)
        return other

    def _temporary(self) -> Path:
        """Return the path of a trace that exists as long as this object."""
        folder = tempfile.mkdtemp(prefix="vram-dry-")
        weakref.finalize(self, _remove, folder, os.getpid())
        return Path(folder) / "dry.vtrace"

    @cached_property
    def _contributions(self) -> list[DryRunContribution]:
        self._finished()
        return contributions(_program.moment(self._path))

    @cached_property
    def _replayed(self) -> dict[str, Any]:
        self._finished()
        # Without the limit, the requests that failed would succeed.
        limit = self._running().refused_limit_bytes
        return _program.replay(self._path, self._settings.allocator, capacity=limit)

    @cached_property
    def _needed_bytes(self) -> int:
        """The least memory of a GPU on which the program runs; until it ran out of memory, if it did."""
        return self._least_bytes(self._path_at_limit) + self._running().outside_bytes

    def _least_bytes(self, trace: Path) -> int:
        """The least that the allocator may reserve for the requests of a trace; until it ran out of memory, if it did."""
        return self._least_of(trace).size_bytes

    def _least_of(self, trace: Path) -> _least.Least:
        self._finished()
        allocator = self._settings.allocator
        key = trace, allocator
        if key not in self._least:
            self._least[key] = max(self._least_of_device(trace, device) for device in self._replayed_devices)
        return self._least[key]

    @property
    def _replayed_devices(self) -> Sequence[int | None]:
        """All devices, since the one that requests most need not be the one that needs most; None: there is one."""
        devices = self._running().devices
        return devices if len(devices) > 1 else [None]

    def _least_of_device(self, trace: Path, device: int | None) -> _least.Least:
        allocator = self._settings.allocator
        limit = self._running().refused_limit_bytes
        if limit is None:
            return _least.least(trace, allocator, device)
        if limit == MAX_BYTES:
            raise _program.beyond_any_gpu(trace)
        found = _program.replay(trace, allocator, finds_capacity=True, capacity=limit, device=device)
        found_bytes = int(found["min_capacity_bytes"])
        return _least.Least(found_bytes, found_bytes - 1)

    @cached_property
    def _path_at_limit(self) -> Path:
        """The trace as it would be on a GPU that the program just fits."""
        smaller = self._running().smaller
        if not smaller:
            return self._path
        path = self._temporary().with_name("at_limit.jsonl")
        _at_limit.write(self._path, path, smaller)
        return path

    def _running(self) -> Session:
        if self._session is None:
            raise VramError(tr("this dry run has not begun; use it in a with statement"))
        return self._session

    def _finished(self) -> None:
        if not self._is_done:
            raise VramError(tr("a dry run has results once its with statement has ended"))
        if not self._running().has_requests:
            raise VramError(
                tr(
                    "the program requested no memory of the GPU, so there is nothing to predict; move its model and its batches to the GPU "
                    "within the dry run"
                )
            )
        if self._file is not None and self._file != _state(self._path):
            raise VramError(
                tr(
                    "the trace {} has been replaced or deleted since this dry run, which has results of it only; state another path for each dry run, "
                    "or none"
                ).format(self._path)
            )

    def __enter__(self: Run) -> Run:
        from vram.dry._session import Session  # imports torch

        if self._session is not None:
            raise VramError(tr("a dry run runs once; make another with vram.dry_run()"))
        used = self._settings
        session = Session(
            used.gpu,
            self._path,
            used.assume,
            used.world_size,
            used.torch_version,
            used.raise_oom,
            used.has_stacks,
        )
        interrupts = self._interrupts
        interrupts.is_blocked = True
        interrupts.begin()
        try:
            session.enter()
            self._session = session
        finally:
            interrupts.is_blocked = False
            if self._session is None:
                interrupts.end()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session = self._running()
        self._interrupts.is_blocked = True
        try:
            self._parameters = session.parameters()
        finally:
            try:
                session.leave(is_interrupted=kind is KeyboardInterrupt)
            finally:
                self._interrupts.end()
                self._interrupts.is_blocked = (
                    False  # the program may have kept the answer to Ctrl-C, and set it again later
                )
        self._is_done = True
        self._file = _state(self._path)
        self._ran_out = kind is not None and kind.__name__ == "OutOfMemoryError"
        if kind is not None and not self._ran_out and not (isinstance(error, SystemExit) and not error.code):
            self._error = kind.__name__

    def __str__(self) -> str:
        if not self._is_done:
            return tr("a dry run on {}").format(self._settings.gpu.name)
        fits = self.fits
        return tr(
            "{} on {}: needs {} of {} (probability {:.3f}); peak requested {}, reserved {}, on the device {}"
        ).format(
            tr("fits") if fits else tr("may not fit"),
            self._settings.gpu.name,
            format_size(fits.needed_bytes),
            format_size(fits.total_bytes),
            fits.probability,
            format_size(self.peak.requested_bytes),
            format_size(self.peak.reserved_bytes),
            format_size(self.peak.device_bytes),
        )

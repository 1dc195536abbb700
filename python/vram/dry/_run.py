"""vram.dry_run(): a program's own training step, on tensors without memory."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from vram._error import VramError
from vram._sizes import format_size
from vram.dry import _program
from vram.dry._gpu import Gpu, find_gpu

if TYPE_CHECKING:
    from vram.dry._session import Session

# The standard deviation of the predicted device peak, as a share of it. It is assumed, not fitted: reserved peaks of the recordings that led to
# the rules are within 0.9 %, those of programs kept away are up to 18 % low (bench/prediction/errors.csv).
_ASSUMED_ERROR = 0.05
# The probability from which a dry run says that a program fits: at most one of 500 such answers may be wrong.
_PROMISED = 0.998


@dataclass(frozen=True)
class DryRunPeak:
    """The most memory at one time.

    Attributes:
        requested_bytes: What the program's tensors and kernels asked for.
        reserved_bytes: What PyTorch's allocator took from the GPU.
        device_bytes: The same with the CUDA context and the modules of kernels.
    """

    requested_bytes: int
    reserved_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class DryRunFits:
    """Whether the program fits; it is true or false itself.

    Attributes:
        probability: That it runs without an out-of-memory error.
        needed_bytes: The least memory of a GPU that the program runs with, context and modules included; until it ran out of memory, if
            it ended by that.
        total_bytes: The memory of the GPU.
    """

    probability: float
    needed_bytes: int
    total_bytes: int

    def __bool__(self) -> bool:
        return self.probability >= _PROMISED


@dataclass(frozen=True)
class DryRunContribution:
    """A part of the requested bytes at their peak."""

    name: str
    category: str
    requested_bytes: int
    blocks: int


class DryRun:
    """A dry run, created by dry_run(). Its results exist once its ``with`` statement has ended."""

    def __init__(
        self,
        gpu: Gpu,
        path: Path,
        allocator: str,
        assume: Mapping[str, Any],
        world_size: int,
        torch_version: str | None,
        raise_oom: bool,
    ) -> None:
        self._gpu, self._path, self._allocator, self._world_size = gpu, path, allocator, world_size
        self._assume, self._torch_version, self._raise_oom = assume, torch_version, raise_oom
        self._ran_out = False
        self._session: Session | None = None
        self._is_done = False

    @property
    def trace_path(self) -> Path:
        """The trace: a ``.vtrace`` file for ``vram report``, ``vram replay`` and the other commands."""
        return self._path

    @property
    def steps(self) -> int:
        """How often the optimizer has stepped; of several optimizers, the one that stepped first."""
        return self._running().steps

    @property
    def unknown_operators(self) -> dict[str, str]:
        """The operators whose kernels may allocate memory that no rule predicts, with the line that used each first."""
        return dict(self._running().unknown_operators)

    def on_step(self, call: Callable[[int], None]) -> None:
        """Call `call` after each step of the optimizer, with the number of its steps."""
        self._running().on_step = call

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
        return DryRunPeak(result["peak_requested_bytes"], reserved, reserved + self._context_bytes)

    @cached_property
    def fits(self) -> DryRunFits:
        """Whether the program fits on the GPU. "Yes" leaves a margin for the error of the prediction."""
        needed = self._replayed["min_capacity_bytes"] + self._context_bytes
        if self._ran_out:
            return DryRunFits(0.0, needed, self._gpu.total_bytes)
        deviations = (self._gpu.total_bytes - needed) / (needed * _ASSUMED_ERROR)
        return DryRunFits(0.5 * (1 + math.erf(deviations / math.sqrt(2))), needed, self._gpu.total_bytes)

    def report(self) -> str:
        """Return the report of the trace, as ``vram report`` prints it."""
        self._finished()
        return _program.report(self._path)

    def why(self, most: int = 10) -> list[DryRunContribution]:
        """Return the largest contributions to the peak of requested bytes, largest first."""
        return self._contributions[:most]

    def by_module(self, depth: int | None = None) -> dict[str, dict[str, int]]:
        """Return the requested bytes at their peak by module and category, largest module first.

        Args:
            depth: How many parts of the modules' names to keep ("layers.7" has 2); None: all.
        """
        modules: dict[str, dict[str, int]] = {}
        for part in self._contributions:
            name = _module(part, depth)
            of_module = modules.setdefault(name, {})
            of_module[part.category] = of_module.get(part.category, 0) + part.requested_bytes
        return dict(sorted(modules.items(), key=lambda item: -sum(item[1].values())))

    @cached_property
    def _contributions(self) -> list[DryRunContribution]:
        self._finished()
        found = []
        for holder in _program.holders(self._path):
            name, _, category = holder["name"].rpartition(" · ")
            found.append(
                DryRunContribution(
                    name or category, category if name else "other", holder["requested_bytes"], holder["count"]
                )
            )
        return found

    @cached_property
    def _replayed(self) -> dict[str, Any]:
        self._finished()
        # Without the limit, the requests that failed would succeed.
        limit = self._running().refused_limit_bytes
        return _program.replay(self._path, self._allocator, finds_capacity=True, capacity=limit)

    @property
    def _context_bytes(self) -> int:
        kernels = self._running().kernels
        return int(kernels.context_bytes + kernels.module_bytes)

    def _running(self) -> Session:
        if self._session is None:
            raise VramError("this dry run has not begun; use it in a with statement")
        return self._session

    def _finished(self) -> None:
        if not self._is_done:
            raise VramError("a dry run has results once its with statement has ended")

    def __enter__(self) -> DryRun:
        from vram.dry._session import Session  # imports torch

        if self._session is not None:
            raise VramError("a dry run runs once; make another with vram.dry_run()")
        session = Session(self._gpu, self._path, self._assume, self._world_size, self._torch_version, self._raise_oom)
        session.enter()
        self._session = session
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._running().leave()
        self._is_done = True
        self._ran_out = kind is not None and kind.__name__ == "OutOfMemoryError"

    def __str__(self) -> str:
        if not self._is_done:
            return f"a dry run on {self._gpu.name}"
        fits = self.fits
        return (
            f"{'fits' if fits else 'may not fit'} on {self._gpu.name}: needs {format_size(fits.needed_bytes)} of "
            f"{format_size(fits.total_bytes)} (probability {fits.probability:.3f}); peak requested "
            f"{format_size(self.peak.requested_bytes)}, reserved {format_size(self.peak.reserved_bytes)}, on the device "
            f"{format_size(self.peak.device_bytes)}"
        )


def _module(part: DryRunContribution, depth: int | None) -> str:
    """Return the module: layers.7.mlp of "layers.7.mlp.weight" and of "forward/GPT/layers.7/layers.7.mlp"."""
    name = part.name.rpartition("/")[2]
    if "/" not in part.name and part.category in ("parameter", "gradient", "optimizer state"):
        parts = name.split(".")
        name = ".".join(parts[: -2 if part.category == "optimizer state" else -1])
    if depth is not None:
        name = ".".join(name.split(".")[:depth])
    return name or "outside modules"


def _default_allocator() -> str:
    settings = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    return f"torch:{settings.replace(':', '=')}" if settings else "torch"


def dry_run(
    gpu: str = "H200",
    *,
    path: str | Path | None = None,
    assume: Mapping[str, Any] | None = None,
    allocator: str | None = None,
    world_size: int = 1,
    torch_version: str | None = None,
    raise_oom: bool = False,
) -> DryRun:
    """Predict the GPU memory of a training step without a GPU: ``with vram.dry_run(gpu="24GiB") as run:``.

    The block runs as on a machine with this GPU, but tensors on the GPU have no memory and no values. Tensors on the CPU keep their
    values, except large ones that are made from nothing. The result is a trace that every command of ``vram`` reads. docs/dry-run.md
    describes what it predicts and what it cannot.

    Args:
        gpu: The name of a GPU ("RTX 4090"), or the memory that it is sold with ("24GiB").
        path: The trace; by default a temporary file, which exists as long as the result. An existing recording is replaced.
        assume: What to assume where the program reads values of the GPU, by line: ``{"train.py:42": 0.5}``; see DryRun.assume().
        allocator: Which allocator to predict, as ``vram replay --allocator`` takes it. By default PyTorch's, with the settings of
            ``PYTORCH_ALLOC_CONF``.
        world_size: The number of ranks. With more than one, this process is rank 0 of ranks that do not exist.
        torch_version: The PyTorch whose choices of kernels to predict ("2.11.0"); by default the installed one.
        raise_oom: Raise torch.OutOfMemoryError where PyTorch's allocator with default settings would fill the GPU, so that the program's
            own handlers run. By default there is no end of the memory, so that the peaks of a program that does not fit are known. A
            limit that the program sets (torch.cuda.set_per_process_memory_fraction) holds either way.

    Raises:
        ValueError: `gpu` or `assume` is invalid.
        VramError: A recording or another dry run is running; or PyTorch is missing or too old. Within the block, DryRunError: the
            program reads values that a dry run does not have.

    >>> import vram
    >>> run = vram.dry_run(gpu="RTX 4090")
    >>> run.trace_path.suffix
    '.vtrace'
    """
    chosen = find_gpu(gpu)
    folder = None
    if path is None:
        folder = Path(tempfile.mkdtemp(prefix="vram-dry-"))
    run = DryRun(
        chosen,
        Path(path) if path is not None else Path(str(folder)) / "dry.vtrace",
        allocator or _default_allocator(),
        dict(assume or {}),
        world_size,
        torch_version,
        raise_oom,
    )
    if folder is not None:
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
    return run

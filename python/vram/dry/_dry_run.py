"""vram.dry_run() and vram.predict(): the results of a dry run, and those of the program with changes.

changes to the program, sizes ──▶ another dry run ──▶ its trace ──▶ changes that only move bytes ──▶ an edited trace ──▶ replay
                                  (_changes.py)                     (_models.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vram._arguments import MAX_INT32, require_integers
from vram._error import VramError
from vram._sizes import format_size
from vram._texts import columns_of, tr
from vram.dry import _allocator, _what_if, _why
from vram.dry._gpu import find_gpu
from vram.dry._models import Model
from vram.dry._repeat import STEPS, Program
from vram.dry._results import DryRunContribution, DryRunFits, DryRunPeak
from vram.dry._run import Settings, TracedRun

if TYPE_CHECKING:
    from vram.dry._changes import Changes


class DryRun(TracedRun):
    """A dry run, created by dry_run() or predict(). Its results exist once its ``with`` statement has ended."""

    def __init__(self, settings: Settings, path: Path | None = None) -> None:
        super().__init__(settings, path)
        self._program: Program | None = None  # None: it cannot run again

    def why(self, most: int = 10) -> list[DryRunContribution]:
        """Return the largest contributions to the peak of requested bytes, largest first.

        With vram.predict(), each has a formula in the sizes of the program where one reproduces the bytes of further dry runs: two for
        each size, and one to check.

        Raises:
            ValueError: `most` is negative.
        """
        require_integers(0, most=most)
        return self._explained[:most]

    # size: most of it is its documentation
    def what_if(
        self,
        *,
        precision: str | Mapping[str, str] | None = None,
        optimizer: str | None = None,
        checkpointing: bool | None = None,
        lora_rank: int | None = None,
        cudnn_benchmark: bool | None = None,
        gradient_as_bucket_view: bool | None = None,
        zero: int | None = None,
        world_size: int | None = None,
        gradients: str | None = None,
        weights: str | None = None,
        **sizes: int,
    ) -> WhatIf:
        """Predict the program with changes, which apply together. docs/dry-run.md lists how each is predicted.

        The first six and sizes are another dry run of the program, for which vram.predict() must have made this one. The others are
        models on its trace.

        Args:
            precision: "fp32", "bf16" or "fp16" (autocast), or "full-bf16"; or some of these by names of modules: ``{"blocks.*": "bf16"}``.
            optimizer: "sgd", "momentum", "adamw", "adafactor" or "adamw-8bit".
            checkpointing: True: each block of the model is recomputed in backward.
            lora_rank: Train adapters of this rank in parallel with the linear layers.
            cudnn_benchmark: What ``torch.backends.cudnn.benchmark`` is.
            gradient_as_bucket_view: What DistributedDataParallel gets by this name.
            zero: The stage of ZeRO (1, 2 or 3), on `world_size` GPUs.
            world_size: The number of GPUs that share with `zero`.
            gradients: "bf16".
            weights: "int8", "fp8" or "nf4": frozen weights of linear layers.
            sizes: Sizes of the program, such as ``batch=16``.

        Raises:
            ValueError: A change or a size is unknown.
            VramError: The program does not allow the change, or cannot run again. Errors of the changed program propagate.
        """
        of_program = _stated(
            precision=precision,
            optimizer=optimizer,
            checkpointing=checkpointing,
            lora_rank=lora_rank,
            cudnn_benchmark=cudnn_benchmark,
            gradient_as_bucket_view=gradient_as_bucket_view,
        )
        of_trace = _stated(zero=zero, world_size=world_size, gradients=gradients, weights=weights)
        asked = {**of_program, **of_trace, **sizes}
        require_integers(1, **sizes)
        if not asked:
            raise ValueError(tr("expected a change, such as precision='bf16' or batch=16"))
        self._finished()
        changed, method = self, "dry run"
        model = Model(**of_trace)
        if self._program is None and not sizes and of_program.keys() <= {"optimizer"}:
            model = model.with_optimizer(optimizer)
        elif of_program or sizes:
            from vram.dry._changes import Changes  # imports torch

            changed = self._again(sizes, Changes(**of_program))
        if not model.is_empty:
            changed, method = changed._with_other_blocks(*model.edits(changed._parameters)), "model"
        before = self._program.sizes if self._program else {}
        saved_bytes = self.peak.device_bytes - changed.peak.device_bytes
        return WhatIf(_what_if.name_of(asked), method, _what_if.cost_of(asked, before), saved_bytes, changed)

    def what_ifs(self, world_size: int = 8) -> WhatIfs:
        """Predict the usual changes, each alone, and return them with those first that save most; print() shows a table.

        Args:
            world_size: The number of GPUs for ZeRO.

        Raises:
            ValueError: `world_size` is below 2.
        """
        require_integers(2, MAX_INT32, world_size=world_size)
        self._finished()
        found, impossible = [], {}
        sizes = self._program.sizes if self._program else None
        for changes in _what_if.usual(sizes, world_size, is_parallel=self._settings.world_size > 1):
            try:
                found.append(self.what_if(**changes))
            except (Exception, SystemExit) as error:  # of the program, which may not allow the change
                impossible[_what_if.name_of(changes)] = str(error).partition("\n")[0] or type(error).__name__
        table = WhatIfs(sorted(found, key=lambda each: -each.saved_bytes))
        table.impossible = impossible
        return table

    @cached_property
    def _explained(self) -> list[DryRunContribution]:
        if self._program is None or not self._program.sizes:
            return self._contributions
        return _why.explained(self._path, self._program.sizes, self._again)

    def _again(self, sizes: Mapping[str, int], changes: Changes | None = None) -> DryRun:
        """Return another dry run of the program.

        Raises:
            VramError: It cannot run again.
            ValueError: It has no such size.
        """
        if self._program is None:
            raise VramError(
                tr(
                    "a with statement cannot run again, so only changes of optimizer, zero, gradients and "
                    "weights can be predicted for it; make a function of the program and call "
                    "vram.predict(function, ...)"
                )
            )
        unknown = sizes.keys() - self._program.sizes.keys()
        if unknown:
            known = ", ".join(self._program.sizes) or "none"
            raise ValueError(
                tr("'{}' is no size of the program; the sizes given to vram.predict() are: {}").format(
                    min(unknown), known
                )
            )
        other = self._another()
        other._program = self._program.with_sizes(sizes)
        return other._program.run_in(other, changes)


def _stated(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in changes.items() if value is not None}


@dataclass(frozen=True)
class WhatIf:
    """What a program with changes is predicted to need.

    Attributes:
        change: The changes, such as "precision=bf16, batch=16".
        method: "dry run": the changed program ran. "model": the trace of a run was changed, by rules that docs/dry-run.md states.
        cost: What it costs besides memory.
        saved_bytes: The peak of bytes on the device, less the changed one; negative if more is needed.
        run: The results of the changed program.
    """

    change: str
    method: str
    cost: str
    saved_bytes: int
    run: DryRun = field(repr=False)

    @property
    def peak(self) -> DryRunPeak:
        """The predicted peaks."""
        return self.run.peak

    @property
    def fits(self) -> DryRunFits:
        """Whether the changed program fits."""
        return self.run.fits

    def __str__(self) -> str:
        changes = tr("takes {} more") if self.saved_bytes < 0 else tr("saves {}")
        return tr("{}: {}, {}: needs {} ({}); cost: {}").format(
            self.change,
            changes.format(format_size(abs(self.saved_bytes))),
            tr("fits") if self.fits else tr("may not fit"),
            format_size(self.fits.needed_bytes),
            self.method,
            self.cost,
        )


class WhatIfs(tuple[WhatIf, ...]):
    """Changes to one program, those that save most first; str() is a table.

    Attributes:
        impossible: The changes that the program does not allow, with the reason.
    """

    impossible: dict[str, str]

    def __str__(self) -> str:
        head = tr("change"), tr("saves"), tr("on the device"), tr("requested"), tr("fits"), tr("by"), tr("cost")
        rows: list[tuple[str, ...]] = [head]
        for each in self:
            sizes = map(format_size, (each.saved_bytes, each.peak.device_bytes, each.peak.requested_bytes))
            rows.append((each.change, *sizes, tr("yes") if each.fits else tr("no"), each.method, each.cost))
        widths = [max(map(columns_of, column)) for column in zip(*rows)]
        lines = [
            "  ".join(text + " " * (width - columns_of(text)) for text, width in zip(row, widths)).rstrip()
            for row in rows
        ]
        lines += [tr("not possible: {}: {}").format(change, reason) for change, reason in self.impossible.items()]
        return "\n".join(lines)


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
            ``PYTORCH_ALLOC_CONF``, without those that change nothing of the memory of the GPU.
        world_size: The number of ranks. With more than one, this process is rank 0 of ranks that do not exist.
        torch_version: The PyTorch whose choices of kernels to predict ("2.11.0"); by default the installed one.
        raise_oom: Raise torch.OutOfMemoryError where PyTorch's allocator with default settings would fill the GPU, so that the program's
            own handlers run. By default each device has 16 TiB, so that the peaks of a program that does not fit are known. A
            limit that the program sets (torch.cuda.set_per_process_memory_fraction) holds either way.

    Raises:
        TypeError: `gpu` is no text, such as the function to run.
        ValueError: `gpu`, `assume` or `world_size` is invalid.
        VramError: A recording or another dry run is running; or PyTorch is missing or too old. Within the block, DryRunError: the
            program reads values that a dry run does not have.

    >>> import vram
    >>> run = vram.dry_run(gpu="RTX 4090")
    >>> run.trace_path.suffix
    '.vtrace'
    """
    require_integers(1, MAX_INT32, world_size=world_size)
    settings = Settings(
        find_gpu(gpu),
        allocator or _allocator.from_environment(),
        dict(assume or {}),
        world_size,
        torch_version,
        raise_oom,
    )
    return DryRun(settings, None if path is None else Path(path))


def predict(
    program: Callable[..., object],
    gpu: str = "H200",
    *,
    steps: int = STEPS,
    path: str | Path | None = None,
    assume: Mapping[str, Any] | None = None,
    allocator: str | None = None,
    world_size: int = 1,
    torch_version: str | None = None,
    **sizes: int,
) -> DryRun:
    """Predict the GPU memory of a training program, and of changes to it, without a GPU.

    ``program(**sizes)`` makes the model and the optimizer and trains. It is a dry run (vram.dry_run()), stopped after `steps` steps of
    the optimizer. Because it can be called again, the result answers what a ``with`` block cannot: run.why() has formulas in the
    sizes, and run.what_if() predicts the program with other sizes, another precision, another optimizer and more. Everything on the
    GPU must be made within the program, because a dry run leaves tensors without values.

    Args:
        program: The function. Each of its dry runs begins with the same random numbers.
        gpu: The name of a GPU ("RTX 4090"), or the memory that it is sold with ("24GiB").
        steps: How many steps of the optimizer to run. The optimizer's states exist from the second on; later steps divide the allocator's
                cached memory differently, and can need more.
        path: As for vram.dry_run(), like the next four.
        assume: What to assume where the program reads values of the GPU.
        allocator: Which allocator to predict.
        world_size: The number of ranks.
        torch_version: The PyTorch whose choices of kernels to predict.
        sizes: Arguments of the program that formulas and what-ifs vary, such as ``batch=32, sequence=1024``.

    Raises:
        ValueError: `gpu`, `steps` or `assume` is invalid, or a size is below 1.
        VramError: As for vram.dry_run(). Errors of the program propagate.

    >>> import vram
    >>> vram.predict(lambda batch: None, "Voodoo 3", batch=32)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: 'Voodoo 3' is neither a known GPU (...
    """
    require_integers(1, steps=steps)
    require_integers(1, **sizes)
    run = dry_run(
        gpu, path=path, assume=assume, allocator=allocator, world_size=world_size, torch_version=torch_version
    )
    run._program = Program(program, steps, sizes)
    return run._program.run_in(run)

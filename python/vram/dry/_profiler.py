"""PyTorch's profilers, which cannot profile a GPU that is not there: they profile the host."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import profiler

from vram.dry import _guard
from vram.dry._patches import Patches


def put_in_place(patches: Patches) -> None:
    """Leave the GPU out of the activities of profilers, and its ranges and its own profiler away, where PyTorch sees no GPU."""
    if torch.version.cuda is not None and not _guard.lacks_gpu():
        return
    of_profile, of_ranges = profiler.profile.__init__, profiler.emit_nvtx.__init__

    def made(profile: Any, enabled: bool = True, *, use_cuda: bool = False, **options: Any) -> None:
        if use_cuda or options.get("use_device") == "cuda":
            options.update(use_device=None, use_cpu=True)
        of_profile(profile, enabled, **options)

    def without_ranges(ranges: Any, enabled: bool = True, record_shapes: bool = False) -> None:  # noqa: ARG001
        of_ranges(ranges, False, record_shapes)

    patches.put(profiler.profile, "__init__", made)
    patches.put(profiler.emit_nvtx, "__init__", without_ranges)
    patches.put_where_found(torch.cuda.profiler, {"init": _nothing, "start": _nothing, "stop": _nothing})


def _nothing(*_arguments: Any, **_named: Any) -> None: ...

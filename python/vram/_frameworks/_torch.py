"""PyTorch, seen as vram needs it: its own counters, which count the pool's memory too while the pool is under it."""

from __future__ import annotations

import re
from typing import Any

from vram._frameworks import Figures

# What libraries under PyTorch say instead of raising OutOfMemoryError.
_IN_DISGUISE = re.compile(
    r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
    r"|cuFFT error: CUFFT_ALLOC_FAILED|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
)


class TorchFramework:
    """See Framework. CUDA devices; a build without CUDA has none."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def devices(self) -> list[int]:
        cuda = self._torch.cuda
        return list(range(cuda.device_count())) if cuda.is_initialized() else []

    def current_device(self) -> int | None:
        cuda = self._torch.cuda
        return int(cuda.current_device()) if cuda.is_initialized() else None

    def figures(self, device: int) -> Figures:
        stats = self._torch.cuda.memory_stats(device)
        return Figures(
            allocated_bytes=stats.get("allocated_bytes.all.current", 0),
            reserved_bytes=stats.get("reserved_bytes.all.current", 0),
            peak_allocated_bytes=stats.get("allocated_bytes.all.peak", 0),
            peak_reserved_bytes=stats.get("reserved_bytes.all.peak", 0),
        )

    def reset_peaks(self, device: int) -> None:
        self._torch.cuda.reset_peak_memory_stats(device)

    def synchronize(self, device: int) -> None:
        self._torch.cuda.synchronize(device)

    def release_cache(self) -> None:
        if self._torch.cuda.is_initialized():
            self._torch.cuda.empty_cache()

    def is_out_of_memory(self, error: BaseException) -> bool:
        if isinstance(error, self._torch.cuda.OutOfMemoryError):  # torch.OutOfMemoryError, by its older name
            return True
        return isinstance(error, RuntimeError) and _IN_DISGUISE.search(str(error)) is not None

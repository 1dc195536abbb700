"""PyTorch, seen as vram needs it: its own counters, which count the pool's memory too while the pool is under it."""

from __future__ import annotations

import gc
import re
import sys
from typing import Any

from vram._frameworks import COUNTERS, DeviceMemory, Figures, Tensor
from vram._frameworks._frozen import may_hide_graphs
from vram._texts import tr

# What libraries under PyTorch say instead of raising OutOfMemoryError.
_OOM_MESSAGE = re.compile(
    r"CUDA out of memory|(?:CUDA|CUDA driver|Triton) [Ee]rror(?: \[CUDA\])?: out of memory|CUFFT_ALLOC_FAILED"
    r"|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
    r"|CUBLAS_STATUS_NOT_INITIALIZED when calling `cublas(?:Lt)?Create"  # there was no memory for the handle
    r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory"
)


class TorchFramework:
    """See Framework. CUDA devices; a build without CUDA has none."""

    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._own_references = 0  # 0: not known yet
        self._own_users = 0  # of a storage, while they are counted; 0: not known yet

    def devices(self) -> list[int]:
        """To synchronize, or to ask what is free, would take hundreds of MiB of a GPU that the program lets be."""
        if not self._torch.cuda.is_initialized():
            return []
        is_touched = getattr(self._torch._C, "_cuda_hasPrimaryContext", lambda _: True)
        return [device for device in range(self._torch.cuda.device_count()) if is_touched(device)]

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
            **{name: stats.get(name) for name in COUNTERS},
        )

    def requested_bytes(self, device: int) -> int | None:
        """Return what the program asked for, before rounding. PyTorch reports it from 2.1 on."""
        requested: int | None = self._torch.cuda.memory_stats(device).get("requested_bytes.all.current")
        return requested

    def segments(self, device: int) -> list[dict[str, Any]]:
        """Return the allocator's segments as torch.cuda.memory_snapshot() lists them, without its history."""
        segments = self._snapshot_without_history()
        if segments is None:
            segments = self._torch.cuda.memory_snapshot()
        return [segment for segment in segments if segment["device"] == device]

    def all_segments(self) -> list[dict[str, Any]] | None:
        """Return the segments of all devices, in a time that depends on their blocks only.

        None: the program keeps a history of its memory, which an older PyTorch would copy.
        """
        if not self._torch.cuda.is_initialized():
            return []
        segments = self._snapshot_without_history()
        if segments is None and not self._torch._C._cuda_isHistoryEnabled():
            segments = self._torch.cuda.memory_snapshot()
        return segments

    def _snapshot_without_history(self) -> list[dict[str, Any]] | None:
        """Return None where PyTorch cannot leave the history out."""
        try:
            segments: list[dict[str, Any]] = self._torch.cuda.memory_snapshot(include_traces=False)
        except TypeError:  # an older PyTorch
            return None
        return segments

    def pci_id(self, device: int) -> str | None:
        """See Counters. PyTorch reports it from 2.7 on."""
        properties = self._torch.cuda.get_device_properties(device)
        if not hasattr(properties, "pci_bus_id"):
            return None
        return f"{properties.pci_domain_id:04x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"

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
        return isinstance(error, RuntimeError) and _OOM_MESSAGE.search(str(error)) is not None

    def device_memory(self, device: int) -> DeviceMemory | None:
        free, total = self._torch.cuda.mem_get_info(device)
        return DeviceMemory(int(free), int(total))

    def unavailable_reason(self) -> str | None:
        cuda = self._torch.cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            return tr("a CUDA graph is being captured")
        return None

    def clear_workspaces(self) -> str | None:
        """See Framework. Clears cuBLAS's workspaces and cuFFT's plans; PyTorch offers nothing of the kind for cuDNN."""
        if not self._torch.cuda.is_initialized():
            return tr("CUDA is not in use")
        held = self._graphs()
        if held is not None:
            return held
        self._torch.cuda.synchronize()  # kernels that are queued still write into them
        clear = getattr(self._torch._C, "_cuda_clearCublasWorkspaces", None)
        if clear is not None:
            clear()
        for device in self.devices():
            self._torch.backends.cuda.cufft_plan_cache[device].clear()
        return None

    def pinned_bytes(self) -> int | None:
        """See Framework. How much of it is in use, PyTorch reports only from some version after 2.11 on.

        Before, its counter misses blocks that come back: all of them in 2.11, those that a stream used in 2.8
        (pytorch/pytorch#169561, #179380).
        """
        cuda = self._torch.cuda
        if not hasattr(cuda, "host_memory_stats") or not cuda.is_initialized():
            return None  # PyTorch before 2.7
        stats = cuda.host_memory_stats()
        # PyTorch 2.7 and 2.8 call it as they call that of devices.
        held = "reserved_bytes" if "reserved_bytes.current" in stats else "allocated_bytes"
        return int(stats.get(f"{held}.current", 0))

    def release_host_cache(self) -> str | None:
        release = getattr(self._torch._C, "_host_emptyCache", None)
        if release is None or not self._torch.cuda.is_initialized():
            return tr("this PyTorch keeps none, or can't give it back")
        release()
        return None

    def tensor_classes(self) -> tuple[type, ...]:
        return (self._torch.Tensor,)

    def tensor(self, item: object) -> Tensor | None:
        if not issubclass(type(item), self.tensor_classes()):
            return None
        try:
            with self._torch._C.DisableTorchFunctionSubclass():
                return self._tensor(item)
        except (RuntimeError, NotImplementedError):  # has no storage: sparse, functional, or of another kind
            return None

    def storage_users(self, item: object) -> int | None:
        count = getattr(self._torch._C, "_storage_Use_Count", None)
        if count is None:
            return None
        with self._torch._C.DisableTorchFunctionSubclass():
            if not self._own_users:
                self._own_users = self._count_users(count, self._torch.empty(1)) - 1
            return self._count_users(count, item) - self._own_users

    @staticmethod
    def _count_users(count: Any, item: Any) -> int:
        storage = item.untyped_storage()
        return int(count(storage._cdata))

    def hidden_base(self, item: object) -> object | None:
        return self._hidden(item, "_base")

    def hidden_gradient(self, item: object) -> object | None:
        return self._hidden(item, "grad")

    def _hidden(self, item: Any, name: str) -> object | None:
        """PyTorch keeps such an object alive by itself; how many references are then its own differs by version."""
        if not issubclass(type(item), self.tensor_classes()):
            return None
        with self._torch._C.DisableTorchFunctionSubclass():
            if not item.is_leaf and name == "grad":
                return None  # has none, and asking warns
            self._own_references = self._own_references or self._count_own_references()
            if sys.getrefcount(getattr(item, name)) > self._own_references:
                return None
            return getattr(item, name)  # type: ignore[no-any-return]

    def _count_own_references(self) -> int:
        view = self._torch.empty(2, device="meta")[1:]
        return sys.getrefcount(getattr(view, "_base"))  # noqa: B009  asked in the same way

    def _tensor(self, item: Any) -> Tensor:
        storage = item.untyped_storage()
        return Tensor(
            shape=tuple(int(extent) for extent in item.shape),
            dtype=str(item.dtype).partition(".")[2],
            device=str(item.device),
            on_gpu=item.device.type == "cuda",
            storage=int(storage._cdata),
            storage_bytes=int(storage.nbytes()),
        )

    def _graphs(self) -> str | None:
        """A captured graph writes to the workspaces' addresses whenever it is replayed."""
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if counters is not None and counters["frames"]["ok"]:
            return tr("torch.compile has compiled code, whose CUDA graphs may use them")
        if may_hide_graphs():
            return tr("gc.freeze() has hidden objects, CUDA graphs that use them perhaps")
        graph = self._torch.cuda.CUDAGraph
        if any(issubclass(type(item), graph) for item in gc.get_objects()):
            return tr("CUDA graphs use them")
        return None


def is_private(segment: dict[str, Any]) -> bool:
    """Return whether a segment of a snapshot belongs to a graph or a ``MemPool``."""
    return tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)

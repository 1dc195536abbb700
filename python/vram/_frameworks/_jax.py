"""JAX, seen as vram needs it. XLA's allocator keeps what it has: it gives nothing back before the process ends."""

from __future__ import annotations

import sys
from typing import Any

from vram._frameworks import DeviceMemory, Figures, Tensor
from vram._texts import tr

_GPUS = ("gpu", "cuda", "rocm")


class JaxFramework:
    """See Framework. Devices are this process's GPUs, in the order of jax.local_devices()."""

    name = "jax"

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def devices(self) -> list[int]:
        return list(range(len(self._gpus())))

    def current_device(self) -> int | None:
        return 0 if self._gpus() else None

    def figures(self, device: int) -> Figures:
        stats = self._gpus()[device].memory_stats() or {}  # none under XLA_PYTHON_CLIENT_ALLOCATOR=platform
        return Figures(
            allocated_bytes=stats.get("bytes_in_use"),
            reserved_bytes=stats.get("pool_bytes"),
            peak_allocated_bytes=stats.get("peak_bytes_in_use"),
            peak_reserved_bytes=stats.get("peak_pool_bytes"),
        )

    def pci_id(self, device: int) -> str | None:  # noqa: ARG002
        return None

    def reset_peaks(self, device: int) -> None:
        """There is no way to: peaks are since the program's beginning."""

    def synchronize(self, device: int) -> None:
        wanted = self._gpus()[device]
        for array in self._jax.live_arrays():
            if wanted in array.devices():
                array.block_until_ready()

    def release_cache(self) -> None:
        """There is no way to."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, self._jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)

    def device_memory(self, device: int) -> DeviceMemory | None:
        del device
        return None  # memory_stats() speaks of XLA's share of the device, not of the device

    def unavailable_reason(self) -> str | None:
        return None

    def clear_workspaces(self) -> str | None:
        return tr(
            "jax.clear_caches() would have everything compiled again; call it where a program is "
            "done with its functions"
        )

    def pinned_bytes(self) -> int | None:
        return None

    def release_host_cache(self) -> str | None:
        return tr("JAX has no way to")

    def tensor_classes(self) -> tuple[type, ...]:
        return (self._jax.Array,)

    def tensor(self, item: object) -> Tensor | None:
        if not issubclass(type(item), self.tensor_classes()):
            return None
        array: Any = item
        if array.is_deleted():
            return None
        devices = sorted(array.devices(), key=lambda device: int(device.id))
        alone = len(devices) == 1
        return Tensor(
            shape=tuple(int(extent) for extent in array.shape),
            dtype=str(array.dtype),
            device=f"{devices[0].platform}:{devices[0].id}"
            + ("" if alone else tr(" and {} more").format(len(devices) - 1)),
            on_gpu=devices[0].platform in _GPUS,
            storage=int(array.unsafe_buffer_pointer()) if alone else id(item),
            storage_bytes=int(array.nbytes),
        )

    def storage_users(self, item: object) -> int | None:
        del item
        return None

    def hidden_base(self, item: object) -> object | None:
        del item
        return None  # it has no views

    def hidden_gradient(self, item: object) -> object | None:
        del item
        return None  # gradients are arrays like others

    def _gpus(self) -> list[Any]:
        """Asking for devices sets up the backends; so nothing is asked before the program has done that."""
        bridge = sys.modules.get("jax._src.xla_bridge")
        if bridge is None or not getattr(bridge, "backends_are_initialized", bool)():
            return []
        return [device for device in self._jax.local_devices() if device.platform in _GPUS]

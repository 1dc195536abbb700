"""TensorFlow, seen as vram needs it. Its allocator keeps what it has: it gives nothing back before the process ends."""

from __future__ import annotations

import math
import sys
from typing import Any

from vram._frameworks import DeviceMemory, Figures, Tensor
from vram._texts import tr


class TensorFlowFramework:
    """See Framework. Devices are the logical GPUs, in TensorFlow's order."""

    name = "tensorflow"

    def __init__(self, tensorflow: Any) -> None:
        self._tensorflow = tensorflow

    def devices(self) -> list[int]:
        """Listing logical devices sets them up for good; so nothing is asked before the program has done that."""
        context = getattr(sys.modules.get("tensorflow.python.eager.context"), "context", None)
        if context is None or not getattr(context(), "_initialized", False):
            return []
        return list(range(len(self._tensorflow.config.list_logical_devices("GPU"))))

    def current_device(self) -> int | None:
        return 0 if self.devices() else None  # where TensorFlow places operations by default

    def figures(self, device: int) -> Figures:
        info = self._tensorflow.config.experimental.get_memory_info(f"GPU:{device}")
        return Figures(allocated_bytes=int(info["current"]), peak_allocated_bytes=int(info["peak"]))

    def pci_id(self, device: int) -> str | None:  # noqa: ARG002
        return None

    def reset_peaks(self, device: int) -> None:
        self._tensorflow.config.experimental.reset_memory_stats(f"GPU:{device}")

    def synchronize(self, device: int) -> None:
        """Of all devices: TensorFlow has no other."""
        del device
        self._tensorflow.test.experimental.sync_devices()

    def release_cache(self) -> None:
        """There is no way to."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        return isinstance(error, self._tensorflow.errors.ResourceExhaustedError)

    def device_memory(self, device: int) -> DeviceMemory | None:
        del device
        return None

    def unavailable_reason(self) -> str | None:
        return None if self._tensorflow.executing_eagerly() else tr("a graph is being traced")

    def clear_workspaces(self) -> str | None:
        return tr("TensorFlow has no way to")

    def pinned_bytes(self) -> int | None:
        return None

    def release_host_cache(self) -> str | None:
        return tr("TensorFlow has no way to")

    def tensor_classes(self) -> tuple[type, ...]:
        return (self._tensorflow.__internal__.EagerTensor, self._tensorflow.Variable)

    def tensor(self, item: object) -> Tensor | None:
        """A variable is what holds its memory: its handle, a tensor too, holds none."""
        if not issubclass(type(item), self.tensor_classes()):
            return None
        held: Any = item
        if held.dtype in (self._tensorflow.resource, self._tensorflow.variant) or not held.shape.is_fully_defined():
            return None
        shape = tuple(int(extent) for extent in held.shape)
        device = getattr(held, "backing_device", held.device).rpartition("/device:")[2]
        return Tensor(
            shape=shape,
            dtype=held.dtype.name,
            device=device,
            on_gpu=device.startswith("GPU"),
            storage=id(item),  # where its memory lies can't be asked
            storage_bytes=math.prod(shape) * int(held.dtype.size or 0),
        )

    def storage_users(self, item: object) -> int | None:
        del item
        return None

    def hidden_base(self, item: object) -> object | None:
        del item
        return None  # it has no views

    def hidden_gradient(self, item: object) -> object | None:
        del item
        return None  # gradients are tensors like others

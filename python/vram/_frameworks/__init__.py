"""What vram needs from a framework, and which frameworks the program uses. Importing this module imports no framework.

A framework counts as used once the program itself has imported it; vram never imports one for its own purposes.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

from vram._error import VramError
from vram._frameworks import _frozen as _frozen  # counts what is frozen before the program can have CUDA graphs
from vram._texts import tr

_NAMES = ("torch", "tensorflow", "jax")
_KNOWN = ", ".join(f"'{name}'" for name in _NAMES)


@dataclass(frozen=True)
class Figures:
    """The figures of one device, in bytes. None: the framework does not report it. Peaks are since the last reset_peaks()."""

    allocated_bytes: int | None = None  # held by tensors
    reserved_bytes: int | None = None  # held by the framework's allocator: allocated_bytes and its cache
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    # Since the program started, with the meanings of torch.cuda.memory_stats().
    num_alloc_retries: int | None = None
    num_ooms: int | None = None
    num_device_alloc: int | None = None
    num_device_free: int | None = None


COUNTERS = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of a whole device, in bytes, including that of other processes."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Tensor:
    """The description of a tensor (array). Views of one memory have the same storage."""

    shape: tuple[int, ...]
    dtype: str
    device: str
    on_gpu: bool
    storage: int
    storage_bytes: int

    def __str__(self) -> str:
        return f"Tensor{list(self.shape)} {self.dtype} {self.device}"


class Counters(Protocol):
    """A framework as one that counts its memory. All functions may be called from any thread. Devices are numbered as the framework numbers them."""

    name: str

    def devices(self) -> list[int]:
        """The GPUs that the program has touched; [] where there are none. Touches none."""

    def current_device(self) -> int | None:
        """None where there is no GPU."""

    def figures(self, device: int) -> Figures:
        """Waits for nothing."""

    def pci_id(self, device: int) -> str | None:
        """The PCI address, "0000:19:00.0"; None: the framework does not report it."""

    def reset_peaks(self, device: int) -> None:
        """Peaks become what is current."""

    def synchronize(self, device: int) -> None:
        """Waits until the device has done what is queued."""

    def release_cache(self) -> None:
        """The allocator's free memory goes back to the devices. Waits for them."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether the error says that a GPU's (or the simulated) memory did not suffice."""


class Framework(Counters, Protocol):
    """And as one that can be cleaned. The same holds."""

    def device_memory(self, device: int) -> DeviceMemory | None:
        """None: the framework can't tell."""

    def unavailable_reason(self) -> str | None:
        """Why nothing may be freed at this moment (a graph is being captured, say); None: it may."""

    def clear_workspaces(self) -> str | None:
        """Return memory that libraries keep for their next call to the framework's cache. Returns None, or why not."""

    def pinned_bytes(self) -> int | None:
        """Return the pinned host memory that the framework has, used or not; None: unknown."""

    def release_host_cache(self) -> str | None:
        """Return unused pinned memory to the system. Returns None, or why not."""

    def tensor_classes(self) -> tuple[type, ...]:
        """Return classes of which every tensor on a device is an instance."""

    def tensor(self, item: object) -> Tensor | None:
        """Return the description of a tensor; None: not a tensor of this framework. Runs no code of the item's class."""

    def storage_users(self, item: object) -> int | None:
        """Return how many objects hold the memory of a tensor, including itself; None: unknown."""

    def hidden_base(self, item: object) -> object | None:
        """Return the tensor of which this one is a view, if the program has no reference to it; otherwise None."""

    def hidden_gradient(self, item: object) -> object | None:
        """Return the tensor's gradient, if only the tensor refers to it; otherwise None."""


def framework_of(name: str) -> Framework:
    """Return the framework with a name ("torch", "tensorflow", "jax") that the program has imported.

    Raises:
        VramError: The program has not imported it, or vram does not support it.
    """
    module = sys.modules.get(name)
    if module is not None and name == "torch":
        from vram._frameworks._torch import TorchFramework

        return TorchFramework(module)
    if module is not None and name == "tensorflow":
        from vram._frameworks._tensorflow import TensorFlowFramework

        return TensorFlowFramework(module)
    if module is not None and name == "jax":
        from vram._frameworks._jax import JaxFramework

        return JaxFramework(module)
    raise VramError(
        tr("'{}' is no framework that this program has imported; import it first ({} are known)").format(name, _KNOWN)
    )


def used_frameworks() -> list[Framework]:
    """Return the frameworks that the program has imported."""
    return [framework_of(name) for name in _NAMES if name in sys.modules]


def used_framework() -> Framework | None:
    """Return the first framework that the program has imported, or None."""
    return next(iter(used_frameworks()), None)


__all__ = [
    "COUNTERS",
    "Counters",
    "DeviceMemory",
    "Figures",
    "Framework",
    "Tensor",
    "framework_of",
    "used_framework",
    "used_frameworks",
]

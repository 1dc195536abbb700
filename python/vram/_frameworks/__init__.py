"""What vram needs of a framework, and the one that the program uses. Importing this imports no framework.

A framework is taken for used once the program itself has imported it: vram never imports one on its own account.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

from vram._error import VramError
from vram._frameworks import _frozen as _frozen  # counts what is frozen before the program can have CUDA graphs

_NAMES = ("torch", "tensorflow", "jax")
_KNOWN = ", ".join(f"'{name}'" for name in _NAMES)


@dataclass(frozen=True)
class Figures:
    """Of one device, in bytes; None: the framework does not know. Peaks are since the last reset_peaks()."""

    allocated_bytes: int | None = None  # held by tensors
    reserved_bytes: int | None = None  # held by the framework's allocator: allocated_bytes and its cache
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None


@dataclass(frozen=True)
class DeviceMemory:
    """Of a whole device, in bytes, whoever uses it."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Tensor:
    """What is known of a framework's tensor (array). Views of one memory have the same storage."""

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
        """What libraries under the framework keep for the next call goes to the framework's cache. Else why not."""

    def pinned_bytes(self) -> int | None:
        """Pinned memory of the host that the framework has, used or not; None: it can't tell."""

    def release_host_cache(self) -> str | None:
        """What of it nobody uses goes back to the system. Else why not."""

    def tensor_classes(self) -> tuple[type, ...]:
        """What all its tensors on devices are instances of."""

    def tensor(self, item: object) -> Tensor | None:
        """None: no tensor of this framework. Runs no code of the item's class."""

    def storage_users(self, item: object) -> int | None:
        """How many tensors, and others, hold the memory of that tensor, itself counted; None: the framework can't tell."""

    def hidden_base(self, item: object) -> object | None:
        """The tensor of which that one is a view, if the program itself has no hold of it; None: no such."""

    def hidden_gradient(self, item: object) -> object | None:
        """The tensor's gradient, if nobody but the tensor has a hold of it; None: no such."""


def framework_of(name: str) -> Framework:
    """Of that name ("torch", "tensorflow", "jax"), imported by the program. VramError: it was not, or is not known."""
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
    raise VramError(f"'{name}' is no framework that this program has imported; import it first ({_KNOWN} are known)")


def used_frameworks() -> list[Framework]:
    """Those that the program has imported."""
    return [framework_of(name) for name in _NAMES if name in sys.modules]


def used_framework() -> Framework | None:
    """The first that the program has imported; None: none."""
    return next(iter(used_frameworks()), None)


__all__ = [
    "Counters",
    "DeviceMemory",
    "Figures",
    "Framework",
    "Tensor",
    "framework_of",
    "used_framework",
    "used_frameworks",
]

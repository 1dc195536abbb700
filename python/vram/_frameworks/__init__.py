"""What vram needs of a framework, and the one that the program uses. Importing this imports no framework.

A framework is taken for used once the program itself has imported it: vram never imports one on its own account.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

from vram._error import VramError


@dataclass(frozen=True)
class Figures:
    """Of one device, in bytes; None: the framework does not know. Peaks are since the last reset_peaks()."""

    allocated_bytes: int | None = None  # held by tensors
    reserved_bytes: int | None = None  # held by the framework's allocator: allocated_bytes and its cache
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None


class Framework(Protocol):
    """All functions may be called from any thread. Devices are numbered as the framework numbers them."""

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


def framework_of(name: str) -> Framework:
    """Of that name ("torch"), imported by the program. VramError: it was not, or vram does not know it."""
    if name == "torch" and "torch" in sys.modules:
        from vram._frameworks._torch import TorchFramework

        return TorchFramework(sys.modules["torch"])
    raise VramError(f"'{name}' is no framework that this program has imported; import it first ('torch' is known)")


def used_framework() -> Framework | None:
    """The first that the program has imported; None: none."""
    return next((framework_of(name) for name in ("torch",) if name in sys.modules), None)


__all__ = ["Figures", "Framework", "framework_of", "used_framework"]

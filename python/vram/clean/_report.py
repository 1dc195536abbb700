"""The results of a cleaning: what was freed, what was skipped, and for what reason."""

from __future__ import annotations

from dataclasses import dataclass

from vram._sizes import format_size
from vram.clean._cycles import Cycle
from vram.clean._grades import Grade


@dataclass(frozen=True)
class Cleaned:
    """The result of one grade of a cleaning.

    >>> print(Cleaned(Grade.CACHE, skipped="30 GiB of the device are free"))
    cache: skipped, 30 GiB of the device are free
    """

    grade: Grade
    device_bytes: int = 0  # by which tensors' memory (CYCLES, WORKSPACES) or the allocator's (CACHE) fell
    host_bytes: int = 0
    ms: float = 0.0
    skipped: str | None = None  # why
    cycles: tuple[Cycle, ...] = ()

    def __str__(self) -> str:
        name = self.grade.name.lower()
        if self.skipped is not None:
            return f"{name}: skipped, {self.skipped}"
        sizes = [(self.device_bytes, "on the device"), (self.host_bytes, "on the host")]
        freed = ", ".join(f"{format_size(size)} {where}" for size, where in sizes if size) or "nothing"
        named = "".join(f"\n  {cycle}" for cycle in self.cycles)
        return f"{name}: freed {freed} in {self.ms:.1f} ms{named}"


@dataclass(frozen=True)
class Cleaning:
    """The result of a Cleaner's call, by grade, in the order in which they ran. str() gives a few lines.

    >>> Cleaning("step", (Cleaned(Grade.CYCLES, device_bytes=4096, ms=1.5),)).device_bytes
    4096
    """

    occasion: str  # "step", "epoch" or "end"
    grades: tuple[Cleaned, ...]

    @property
    def device_bytes(self) -> int:
        """Bytes released for other users of the device: those that CACHE freed if it ran, otherwise those of freed tensors."""
        ran = {cleaned.grade: cleaned for cleaned in self.grades if cleaned.skipped is None}
        if Grade.CACHE in ran:
            return ran[Grade.CACHE].device_bytes
        return sum(cleaned.device_bytes for cleaned in ran.values())

    @property
    def host_bytes(self) -> int:
        """Bytes released on the host."""
        return sum(cleaned.host_bytes for cleaned in self.grades)

    @property
    def ms(self) -> float:
        """The time that the cleaning took, in milliseconds."""
        return sum(cleaned.ms for cleaned in self.grades)

    def __str__(self) -> str:
        return "\n".join([f"cleaning at {self.occasion}:", *(f"{cleaned}" for cleaned in self.grades)])

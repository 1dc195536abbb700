"""The results of a call of a Cleaner."""

from __future__ import annotations

from dataclasses import dataclass

from vram._sizes import format_size
from vram._texts import tr, tr_later
from vram.clean._cycles import Cycle
from vram.clean._grades import Grade

_OCCASIONS = {"step": tr_later("step"), "epoch": tr_later("epoch"), "end": tr_later("end")}


@dataclass(frozen=True)
class Cleaned:
    """The result of one grade.

    >>> print(Cleaned(Grade.CACHE, skipped="30 GiB of the device are free"))
    cache: skipped, 30 GiB of the device are free
    """

    grade: Grade
    device_bytes: int = 0  # decrease of the tensors' memory (CYCLES, WORKSPACES) or of the allocator's (CACHE)
    host_bytes: int = 0
    ms: float = 0.0
    skipped: str | None = None  # the reason
    cycles: tuple[Cycle, ...] = ()

    def __str__(self) -> str:
        name = self.grade.name.lower()
        if self.skipped is not None:
            return tr("{}: skipped, {}").format(name, self.skipped)
        sizes = [(self.device_bytes, tr("{} on the device")), (self.host_bytes, tr("{} on the host"))]
        freed = tr(", ").join(text.format(format_size(size)) for size, text in sizes if size) or tr("nothing")
        named = "".join(f"\n  {cycle}" for cycle in self.cycles)
        return tr("{}: freed {} in {:.1f} ms{}").format(name, freed, self.ms, named)


@dataclass(frozen=True)
class Cleaning:
    """The results of a call of a Cleaner, grade by grade in the order of the work. ``str()`` has a few lines.

    >>> Cleaning("step", (Cleaned(Grade.CYCLES, device_bytes=4096, ms=1.5),)).device_bytes
    4096
    """

    occasion: str  # "step", "epoch" or "end"
    grades: tuple[Cleaned, ...]

    @property
    def device_bytes(self) -> int:
        """Bytes freed on the device: by CACHE if it ran, otherwise the tensors' memory."""
        ran = {cleaned.grade: cleaned for cleaned in self.grades if cleaned.skipped is None}
        if Grade.CACHE in ran:
            return ran[Grade.CACHE].device_bytes
        return sum(cleaned.device_bytes for cleaned in ran.values())

    @property
    def host_bytes(self) -> int:
        """Bytes freed on the host."""
        return sum(cleaned.host_bytes for cleaned in self.grades)

    @property
    def ms(self) -> float:
        """Milliseconds spent."""
        return sum(cleaned.ms for cleaned in self.grades)

    def __str__(self) -> str:
        return "\n".join(
            [
                tr("cleaning at {}:").format(tr(_OCCASIONS.get(self.occasion, self.occasion))),
                *(f"{cleaned}" for cleaned in self.grades),
            ]
        )

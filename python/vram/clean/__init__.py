"""What keeps tensors alive, and freeing memory: ``vram.why_alive()``, ``vram.find_cycles()`` and ``vram.Cleaner``. See docs/clean.md."""

from vram.clean._alive import AlivePath, WhyAlive, why_alive
from vram.clean._cleaner import Cleaner
from vram.clean._cycles import Cycle, find_cycles
from vram.clean._grades import Grade
from vram.clean._report import Cleaned, Cleaning

__all__ = ["AlivePath", "Cleaned", "Cleaner", "Cleaning", "Cycle", "Grade", "WhyAlive", "find_cycles", "why_alive"]

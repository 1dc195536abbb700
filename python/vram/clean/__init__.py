"""Cleaning: ``vram.find_cycles()`` and ``vram.Cleaner``. See docs/clean.md."""

from vram.clean._cycles import Cycle, find_cycles

__all__ = ["Cycle", "find_cycles"]

"""The exception that vram raises. Its text states what was expected, what was found, and what to do."""

from __future__ import annotations


class VramError(RuntimeError):
    """A request to vram that is not possible here."""

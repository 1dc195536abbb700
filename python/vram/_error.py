"""The error that vram raises. Its text says what was expected, what was found, and what to do."""

from __future__ import annotations


class VramError(RuntimeError):
    """vram cannot do what was requested here."""

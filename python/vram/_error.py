"""The error that vram raises: its text says what was expected, what was found, and what to do."""

from __future__ import annotations


class VramError(RuntimeError):
    """Something that vram was asked for can't be had here."""

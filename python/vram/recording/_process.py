"""Describes the process to a recording: Python and the frameworks, which the library does not know."""

from __future__ import annotations

import platform
import sys

from vram._library import library


def describe() -> None:
    """Add the description to the running recording."""
    facts = {
        "python.version": platform.python_version(),
        "process.arguments": " ".join(sys.argv),
    }
    for name in ("torch", "tensorflow", "jax", "cupy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            facts[f"{name}.version"] = str(version)
    for key, value in facts.items():
        library().vram_record_about(key.encode(), value.encode(errors="replace"))

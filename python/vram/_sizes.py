"""Sizes as people write them, and as the program takes them: ``20GiB``, ``512 MB``, ``1.5G`` are powers of 1024."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(size: int | str) -> int:
    """Bytes."""
    if isinstance(size, int):
        if size <= 0:
            raise ValueError(f"a size is more than 0 bytes, not {size}")
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?\s*", size, re.IGNORECASE)
    parsed = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if parsed <= 0:
        raise ValueError(f"'{size}' is no size; write 20GiB, 512MiB or a number of bytes")
    return parsed


def text_of_bytes(count: int) -> str:
    """As people read it: 512 B, 4.0 KiB, 1.5 GiB."""
    size, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"

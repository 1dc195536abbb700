"""Sizes as people write them, and as the program takes them: ``20GiB``, ``512 MB``, ``1.5G`` are powers of 1024."""

from __future__ import annotations

import re

_LEAST = 1 << 20  # a limit below that is a number whose unit was forgotten
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(size: int | str) -> int:
    """Bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?\s*", str(size), re.IGNORECASE)
    if match is None:
        raise ValueError(f"'{size}' is no size; write 20GiB, 512MiB or a number of bytes")
    parsed = int(float(match[1]) * _UNITS[match[2].upper()])
    if parsed < _LEAST:
        raise ValueError(f"'{size}' is {parsed} bytes, and 1 MiB is the least; write the unit, as in 20GiB")
    return parsed

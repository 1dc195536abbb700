"""Sizes as people write them and as the program accepts them: ``20GiB``, ``512 MB``, ``1.5G``; units are powers of 1024."""

from __future__ import annotations

import operator
import re

from vram._arguments import MAX_INT64
from vram._texts import tr

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MIN_LIMIT = 1 << 20  # below that it is a number whose unit was forgotten


def parse_limit(size: int | str) -> int:
    """Return the bytes of a limit, which is at least 1 MiB."""
    parsed = _parse(size)
    if parsed < _MIN_LIMIT:
        raise ValueError(
            tr("'{}' is {} bytes, and 1 MiB is the least; write the unit, as in 20GiB").format(size, parsed)
        )
    return parsed


def parse_size(size: int | str) -> int:
    """Return the bytes of a size, which is more than 0."""
    parsed = _parse(size)
    if parsed <= 0:
        raise ValueError(tr("a size is more than 0 bytes, not '{}'").format(size))
    return parsed


def _parse(size: int | str) -> int:
    if not isinstance(size, str):
        size = operator.index(size)  # TypeError: not an integer
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?\s*", str(size), re.IGNORECASE)
    if match is None:
        raise ValueError(tr("'{}' is no size; write 20GiB, 512MiB or a number of bytes").format(size))
    whole, _, part = match[1].partition(".")  # not as a float, which has 53 bits
    size_bytes: int = int(whole + part) * _UNITS[match[2].upper()] // 10 ** len(part)
    if size_bytes > MAX_INT64:
        raise ValueError(tr("'{}' is too large: a size is less than 8 EiB ({} bytes)").format(size, MAX_INT64 + 1))
    return size_bytes


def format_size(size_bytes: int) -> str:
    """Format a size as the program does, in powers of 1024 with three digits: ``512 B``, ``2 MiB``, ``23.6 GiB``.

    >>> format_size(3 << 29), format_size(-2048)
    ('1.5 GiB', '-2 KiB')
    """
    size, unit = float(abs(size_bytes)), 0
    while unit < 4 and size >= 999.5:  # 1000 would be four digits
        size, unit = size / 1024, unit + 1
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    number = f"{size:.{digits}f}"
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{'-' if size_bytes < 0 else ''}{number} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"

"""The grades of cleaning, ordered by cost, and the figures that decide about them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from vram._error import VramError


class Grade(enum.IntEnum):
    """What is freed: this grade and all before it. Functions accept a grade or its name in lower case.

    >>> Grade.CYCLES < Grade.PAGE_CACHE
    True
    """

    CYCLES = 1  # reference cycles that hold tensors, as found by vram.find_cycles()
    CACHE = 2  # the cache of the framework's allocator
    WORKSPACES = 3  # memory that cuBLAS and cuFFT keep for their next call
    HOST = 4  # pinned host memory that the framework keeps
    PAGE_CACHE = 5  # pages of files that the system keeps


def grade_of(name: Grade | str | None) -> Grade | None:
    """Return the grade with a name.

    Raises:
        VramError: There is no such grade.
    """
    if name is None or isinstance(name, Grade):
        return name
    if name.upper() not in Grade.__members__:
        known = ", ".join(repr(grade.name.lower()) for grade in Grade)
        raise VramError(f"a grade is one of {known} or None, not {name!r}")
    return Grade[name.upper()]


@dataclass(frozen=True)
class Limits:
    """The conditions under which freeing memory is worthwhile."""

    min_free_fraction: float  # memory is scarce if less than this fraction of it is free
    min_bytes: int  # less than this is not worth the time
    max_time_fraction: float  # fraction of the elapsed time, for each grade


@dataclass(frozen=True)
class Prospect:
    """What is known about one grade before it runs."""

    bytes: int | None  # the most that would be freed; None: unknown
    level: int  # a figure that falls when memory is freed, and rises when it is reserved again
    unneeded_reason: str | None = None
    impossible: str | None = None

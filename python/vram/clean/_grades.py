"""The grades of cleaning, ordered by cost, and the figures that decide about them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from vram._arguments import require_one_of


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


def grades_of(**occasions: Grade | str | None) -> dict[str, Grade | None]:
    """Return the highest grade of each occasion.

    Raises:
        ValueError: There is no such grade.
    """
    known: dict[str | None, Grade | None] = {**{grade.name.lower(): grade for grade in Grade}, None: None}
    named = {each: grade.name.lower() if isinstance(grade, Grade) else grade for each, grade in occasions.items()}
    require_one_of(known, **named)
    return {each: known[name] for each, name in named.items()}


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

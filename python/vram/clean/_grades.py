"""The grades of cleaning, in order of what they cost, and what the figures are that decide about them."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from vram._error import VramError


class Grade(enum.IntEnum):
    """How much to clean: a grade includes all lower ones. Its name in small letters is accepted as well.

    >>> Grade.CYCLES < Grade.PAGE_CACHE
    True
    """

    CYCLES = 1  # reference cycles that hold tensors: what vram.find_cycles() finds
    CACHE = 2  # what the framework's allocator keeps
    WORKSPACES = 3  # what cuBLAS and cuFFT keep for their next call
    HOST = 4  # what the framework keeps of pinned host memory
    PAGE_CACHE = 5  # what the system keeps of files


def grade_of(name: Grade | str | None) -> Grade | None:
    """VramError: there is no such grade."""
    if name is None or isinstance(name, Grade):
        return name
    if name.upper() not in Grade.__members__:
        known = ", ".join(repr(grade.name.lower()) for grade in Grade)
        raise VramError(f"a grade is one of {known} or None, not {name!r}")
    return Grade[name.upper()]


@dataclass(frozen=True)
class Limits:
    """From when on a cleaning pays."""

    min_free_fraction: float  # memory is short when less than this share of it is free
    min_bytes: int  # less than this is not worth a cleaning
    max_time_fraction: float  # of the time that passes, for each grade


@dataclass(frozen=True)
class Prospect:
    """What is known of one grade before it is cleaned."""

    bytes: int | None  # that would come back at most; None: unknown
    level: int  # the figure that falls with the cleaning, and rises when what was cleaned is built again
    unneeded_reason: str | None = None
    impossible: str | None = None

"""The results of earlier runs of one grade, and whether they are a reason to wait.

A run was useless if the memory was soon reserved again, or if it freed almost nothing. After a useless run the grade
waits, each time twice as long; a useful run resets this.
"""

from __future__ import annotations

from dataclasses import dataclass

from vram._texts import tr
from vram.clean._grades import Limits

REBUILD_CALLS = 10  # calls of the cleaner; memory that is reserved again within them makes a run useless
MAX_WAIT = 10_000  # occasions


@dataclass
class _Watched:
    """A run that may still prove useless."""

    freed_bytes: int
    level_after: int
    calls: int = 0


class History:
    """The history of one grade, for one thread at a time. rebuilding_counts: memory that is reserved again makes a run useless."""

    def __init__(self, rebuilding_counts: bool) -> None:
        self._rebuilding_counts = rebuilding_counts
        self._watched: _Watched | None = None
        self._wait = 0  # occasions that remain to be skipped
        self._next_wait = REBUILD_CALLS
        self._last_s = 0.0
        self._last_end: float | None = None
        self._why = ""

    @property
    def is_watching(self) -> bool:
        return self._watched is not None

    def observe(self, level: int) -> None:
        """Take note of the level, at each call of the cleaner, before any decision."""
        watched = self._watched
        if watched is None:
            return
        watched.calls += 1
        if 2 * (level - watched.level_after) >= watched.freed_bytes:
            later = (
                tr("what the last one freed was reserved again {} call later")
                if watched.calls == 1
                else tr("what the last one freed was reserved again {} calls later")
            )
            self._punish(later.format(watched.calls))
        elif watched.calls >= REBUILD_CALLS:
            self._watched, self._next_wait = None, REBUILD_CALLS

    def occasion(self) -> None:
        """Take note of an occasion at which the grade could run."""
        self._wait = max(0, self._wait - 1)

    def wait_reason(self, now: float, limits: Limits) -> str | None:
        """Return the reason to wait, or None."""
        if self._wait:
            waits = (
                tr("{}; it waits for {} more occasion") if self._wait == 1 else tr("{}; it waits for {} more occasions")
            )
            return waits.format(self._why, self._wait)
        if self._last_end is not None and (now - self._last_end) * limits.max_time_fraction < self._last_s:
            return tr("the last one took {:.0f} ms, and no more than {:.0%} of the time goes here").format(
                self._last_s * 1000.0, limits.max_time_fraction
            )
        return None

    def done(self, freed_bytes: int, level_after: int, began: float, ended: float, limits: Limits) -> None:
        self._last_s, self._last_end = ended - began, ended
        if freed_bytes < limits.min_bytes:
            self._punish(tr("the last one freed next to nothing"))
        elif self._rebuilding_counts:
            self._watched = _Watched(freed_bytes, level_after)
        else:
            self._next_wait = REBUILD_CALLS

    def _punish(self, why: str) -> None:
        self._watched, self._why = None, why
        self._wait, self._next_wait = self._next_wait, min(2 * self._next_wait, MAX_WAIT)

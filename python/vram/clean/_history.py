"""What the cleanings of one grade have brought so far, and whether that is a reason to wait with the next.

A cleaning was useless if what it freed was soon there again, or if it freed next to nothing. After a useless one the
grade waits, each time twice as long; one that proves useful lets it begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from vram.clean._grades import Limits

REBUILD_CALLS = 10  # calls of the cleaner: built again within them, a cleaning was useless
MAX_WAIT = 10_000  # occasions


@dataclass
class _Watched:
    """A cleaning that may yet prove useless."""

    freed_bytes: int
    level_after: int
    calls: int = 0


class History:
    """Of one grade. One thread at a time. rebuilding_counts: to be built again makes a cleaning useless."""

    def __init__(self, rebuilding_counts: bool) -> None:
        self._rebuilding_counts = rebuilding_counts
        self._watched: _Watched | None = None
        self._wait = 0  # occasions that are still to be skipped
        self._next_wait = REBUILD_CALLS
        self._last_s = 0.0
        self._last_end: float | None = None
        self._why = ""

    @property
    def is_watching(self) -> bool:
        return self._watched is not None

    def observe(self, level: int) -> None:
        """At each call of the cleaner, before anything is decided."""
        watched = self._watched
        if watched is None:
            return
        watched.calls += 1
        if 2 * (level - watched.level_after) >= watched.freed_bytes:
            self._punish(f"what the last one freed was there again {watched.calls} calls later")
        elif watched.calls >= REBUILD_CALLS:
            self._watched, self._next_wait = None, REBUILD_CALLS

    def occasion(self) -> None:
        """The grade could be cleaned now."""
        self._wait = max(0, self._wait - 1)

    def wait_reason(self, now: float, limits: Limits) -> str | None:
        """None: no reason."""
        if self._wait:
            return f"{self._why}; it waits for {self._wait} more occasions"
        if self._last_end is not None and (now - self._last_end) * limits.max_time_fraction < self._last_s:
            return f"the last one took {self._last_s * 1e3:.0f} ms, and no more than {limits.max_time_fraction:.0%} of the time goes here"
        return None

    def done(self, freed_bytes: int, level_after: int, began: float, ended: float, limits: Limits) -> None:
        self._last_s, self._last_end = ended - began, ended
        if freed_bytes < limits.min_bytes:
            self._punish("the last one freed next to nothing")
        elif self._rebuilding_counts:
            self._watched = _Watched(freed_bytes, level_after)
        else:
            self._next_wait = REBUILD_CALLS

    def _punish(self, why: str) -> None:
        self._watched, self._why = None, why
        self._wait, self._next_wait = self._next_wait, min(2 * self._next_wait, MAX_WAIT)

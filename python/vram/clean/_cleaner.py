"""``vram.Cleaner``: frees memory up to a requested grade, if that is worthwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from vram._arguments import require_fraction
from vram._frameworks import Framework, used_frameworks
from vram._sizes import format_size, parse_size
from vram._texts import tr
from vram.clean._grades import Grade, Limits, Prospect, grades_of
from vram.clean._history import History
from vram.clean._report import Cleaned, Cleaning
from vram.clean._work import Work

# Workspaces go to the allocator's cache, so the cache is emptied after them.
_IN_ORDER = (Grade.CYCLES, Grade.WORKSPACES, Grade.CACHE, Grade.HOST, Grade.PAGE_CACHE)
_clock = time.perf_counter


class Cleaner:
    """Frees memory between steps, between epochs and at the end, up to the grade given for each occasion (None: never).

    A grade runs only if that is worthwhile (docs/clean.md explains the conditions):

    - At least ``min_bytes`` bytes would be freed.
    - The memory is needed: less than ``min_free_fraction`` of the device's memory (of the host's, for HOST and
      PAGE_CACHE) is free.
    - The previous run was useful: what it freed was not reserved again within ten calls. Otherwise the grade waits for
      ten occasions, then for twenty, and so on.
    - It takes little time: at most ``max_time_fraction`` of the elapsed time for each grade.

    For CYCLES, the first condition is that tensors hold ``min_bytes`` bytes more than their minimum since the last search.
    At the end, only the first condition applies. In a program of several ranks each decides for itself, without
    communication. Use a cleaner from one thread at a time; its devices are those that the framework uses. As a context
    manager it calls end() when it is left without an error.

    Args:
        step: The highest grade after each step, a ``Grade`` or its name in lower case.
        epoch: The same after each epoch.
        end: The same at the end.
        min_free_fraction: A fraction of the memory, more than 0 and at most 1.
        min_bytes: "64MiB" or a number of bytes.
        max_time_fraction: A fraction of the time, more than 0 and at most 1.
        files: The files whose pages PAGE_CACHE drops.
        drop_caches: Lets PAGE_CACHE do what ``sync; echo 3 > /proc/sys/vm/drop_caches`` does; root only. All programs
            of the machine then read their files from disk again.

    Raises:
        ValueError: A grade does not exist, a fraction is out of range, or ``min_bytes`` is not a size.

    >>> import vram
    >>> with vram.Cleaner(step="cycles", epoch="workspaces", end="host") as cleaner:
    ...     for batch in range(3):
    ...         report = cleaner.step()  # on a machine without GPU: nothing to do
    >>> print(report)
    cleaning at step:
    cycles: skipped, no GPU is in use
    """

    def __init__(
        self,
        *,
        step: Grade | str | None = Grade.CYCLES,
        epoch: Grade | str | None = Grade.WORKSPACES,
        end: Grade | str | None = Grade.HOST,
        min_free_fraction: float = 0.1,
        min_bytes: int | str = "64MiB",
        max_time_fraction: float = 0.01,
        files: Iterable[str | os.PathLike[str]] = (),
        drop_caches: bool = False,
    ) -> None:
        require_fraction(min_free_fraction=min_free_fraction, max_time_fraction=max_time_fraction)
        self._grades = grades_of(step=step, epoch=epoch, end=end)
        self._limits = Limits(min_free_fraction, parse_size(min_bytes), max_time_fraction)
        self._work = Work(self._limits, [Path(file) for file in files], drop_caches)
        # A cache that grows again is a reason to wait; recurring cycles are not.
        self._history = {grade: History(rebuilding_counts=grade != Grade.CYCLES) for grade in Grade}
        self.last: Cleaning | None = None  # what the last call did

    def step(self, *, force: bool = False) -> Cleaning:
        """Free memory after a step. Call it after each step. If there is nothing to do, it only reads the framework's counters.

        Args:
            force: Skips the conditions.

        >>> Cleaner(step=None).step().grades
        ()
        """
        return self._clean("step", force)

    def epoch(self, *, force: bool = False) -> Cleaning:
        """Free memory after an epoch. Call it after each epoch.

        Args:
            force: Skips the conditions.

        >>> [cleaned.grade.name for cleaned in Cleaner(epoch="cache").epoch().grades]
        ['CYCLES', 'CACHE']
        """
        return self._clean("epoch", force)

    def end(self, *, force: bool = False) -> Cleaning:
        """Free memory at the end of the work, if the process continues. The memory need not be scarce.

        Args:
            force: Skips the conditions.

        >>> print(Cleaner(end="cycles").end())
        cleaning at end:
        cycles: skipped, no GPU is in use
        """
        return self._clean("end", force)

    def __enter__(self) -> Cleaner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:  # otherwise the error's frames keep their memory, and an error of the device must not hide it
            self.end()

    def _clean(self, occasion: str, force: bool) -> Cleaning:
        highest = self._grades[occasion]
        framework = next((used for used in used_frameworks() if used.devices()), None)
        hindered = framework.unavailable_reason() if framework is not None else None
        at_the_end = occasion == "end"
        self._watch(framework)
        cleaned = []
        for grade in _IN_ORDER:
            if highest is None or grade > highest:
                continue
            if hindered is not None:
                cleaned.append(Cleaned(grade, skipped=hindered))
            else:
                cleaned.append(self._grade(grade, framework, force, at_the_end))
        self.last = Cleaning(occasion, tuple(cleaned))
        return self.last

    def _watch(self, framework: Framework | None) -> None:
        """Observe whether freed memory is reserved again, at every call."""
        for grade, history in self._history.items():
            if history.is_watching:
                history.observe(self._work.prospect(grade, framework, False).level)

    def _grade(self, grade: Grade, framework: Framework | None, force: bool, at_the_end: bool) -> Cleaned:
        prospect = self._work.prospect(grade, framework, at_the_end)
        history = self._history[grade]
        history.occasion()
        why_not = prospect.impossible
        if why_not is None and not force:
            why_not = self._why_not(prospect, history, at_the_end)
        return Cleaned(grade, skipped=why_not) if why_not else self._do(grade, framework, prospect, history)

    def _why_not(self, prospect: Prospect, history: History, at_the_end: bool) -> str | None:
        if prospect.bytes is not None and prospect.bytes < self._limits.min_bytes:
            return tr("no more than {} would come back").format(format_size(prospect.bytes))
        if at_the_end:
            return None
        return prospect.unneeded_reason or history.wait_reason(_clock(), self._limits)

    def _do(self, grade: Grade, framework: Framework | None, before: Prospect, history: History) -> Cleaned:
        began = _clock()
        try:
            failed = self._work.do(grade, framework)
        except OSError as error:
            failed = tr("the system refused ({})").format(error)
        ended = _clock()
        if failed is not None:
            return Cleaned(grade, skipped=failed)
        after = self._work.prospect(grade, framework, False).level
        freed = max(0, before.level - after)
        history.done(freed, after, began, ended, self._limits)
        if grade == Grade.CYCLES:
            self._work.min_allocated = after
        on_host = grade >= Grade.HOST
        return Cleaned(
            grade,
            device_bytes=0 if on_host else freed,
            host_bytes=freed if on_host else 0,
            ms=(ended - began) * 1e3,
            cycles=self._work.found if grade == Grade.CYCLES else (),
        )

"""``vram.Cleaner``: cleans as far as it is asked to, where figures say that it pays."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from vram._error import VramError
from vram._frameworks import Framework, used_frameworks
from vram._sizes import format_size, parse_size
from vram.clean._grades import Grade, Limits, Prospect, grade_of
from vram.clean._history import History
from vram.clean._report import Cleaned, Cleaning
from vram.clean._work import Work

# Workspaces go to the allocator's cache: it is cleaned after them.
_IN_ORDER = (Grade.CYCLES, Grade.WORKSPACES, Grade.CACHE, Grade.HOST, Grade.PAGE_CACHE)
_clock = time.perf_counter


class Cleaner:
    """Frees memory between steps, between epochs and at the end, when the current figures show that it pays.

    A grade is cleaned only if (docs/clean.md has the details):

    - it would free at least ``min_bytes``;
    - memory is short: less than ``min_free_fraction`` of the device's memory (for HOST and PAGE_CACHE, the host's) is free;
    - its last run was useful: the freed memory was not in use again within ten calls. Otherwise the grade waits for ten
      occasions, then for twenty, and so on;
    - it is cheap: a grade takes no more than ``max_time_fraction`` of the elapsed time.

    CYCLES instead requires that tensors hold ``min_bytes`` more than their minimum since the last search. At the end of the work
    it suffices that something would be freed.

    As a context manager it calls end() when left without an error. Not thread-safe. Devices are those that the framework uses.
    In a program of several ranks each rank decides by itself, without communication.

    Args:
        step, epoch, end: the highest grade to clean on that occasion; None cleans nothing.
        min_free_fraction: memory is short when a smaller fraction of it is free.
        min_bytes: the smallest worthwhile amount, in bytes or as "64MiB".
        max_time_fraction: the largest fraction of the time that each grade may take.
        files: the files whose pages PAGE_CACHE drops.
        drop_caches: let PAGE_CACHE drop the whole machine's page cache instead; only for root.

    Raises:
        VramError: a grade or a fraction is not valid.
        ValueError: ``min_bytes`` is not a size.

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
        for name, value in (("min_free_fraction", min_free_fraction), ("max_time_fraction", max_time_fraction)):
            if not 0 < value <= 1:
                raise VramError(f"{name} is a fraction, more than 0 and at most 1, not {value}")
        self._grades = {"step": grade_of(step), "epoch": grade_of(epoch), "end": grade_of(end)}
        self._limits = Limits(min_free_fraction, parse_size(min_bytes), max_time_fraction)
        self._work = Work(self._limits, [Path(file) for file in files], drop_caches)
        # Cycles that come again are no reason to let them lie; a cache that comes again is one to let it be.
        self._history = {grade: History(rebuilding_counts=grade != Grade.CYCLES) for grade in Grade}
        self.last: Cleaning | None = None  # what the last call did

    def step(self, *, force: bool = False) -> Cleaning:
        """Clean after a step. To be called after each one.

        If there is nothing to clean, this costs one reading of the framework's counters.

        Args:
            force: clean even if it does not pay.

        >>> Cleaner(step=None).step().grades
        ()
        """
        return self._clean("step", force)

    def epoch(self, *, force: bool = False) -> Cleaning:
        """Clean after an epoch, as step() does. To be called after each one.

        >>> [cleaned.grade.name for cleaned in Cleaner(epoch="cache").epoch().grades]
        ['CYCLES', 'CACHE']
        """
        return self._clean("epoch", force)

    def end(self, *, force: bool = False) -> Cleaning:
        """Clean at the end of the work, if the process lives on. As step(), but also when memory is not short.

        >>> print(Cleaner(end="cycles").end())
        cleaning at end:
        cycles: skipped, no GPU is in use
        """
        return self._clean("end", force)

    def __enter__(self) -> Cleaner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:  # else the error's frames keep what they have, and a device in error must not hide it
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
        """How soon what was freed is there again, whatever this call is for."""
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
            return f"no more than {format_size(prospect.bytes)} would come back"
        if at_the_end:
            return None
        return prospect.unneeded_reason or history.wait_reason(_clock(), self._limits)

    def _do(self, grade: Grade, framework: Framework | None, before: Prospect, history: History) -> Cleaned:
        began = _clock()
        try:
            failed = self._work.do(grade, framework)
        except OSError as error:
            failed = f"the system refused ({error})"
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

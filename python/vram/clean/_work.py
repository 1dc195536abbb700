"""What each grade would free, and how it does that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vram._frameworks import Figures, Framework
from vram._sizes import format_size
from vram._texts import tr, tr_later
from vram.clean import _host
from vram.clean._cycles import Cycle, find_cycles
from vram.clean._grades import Grade, Limits, Prospect

NO_GPU = tr_later("no GPU is in use")


@dataclass(frozen=True)
class State:
    """The framework's devices at one moment."""

    allocated_bytes: int
    reserved_bytes: int
    spare_bytes: int  # cached by the allocator on the devices that are nearly full
    sufficient_reason: str | None  # None: some device is nearly full

    @classmethod
    def of(cls, framework: Framework, limits: Limits) -> State:
        figures = {device: framework.figures(device) for device in framework.devices()}
        short, freest = [], []
        for device in figures:
            memory = framework.device_memory(device)
            if memory is not None and memory.free_bytes < limits.min_free_fraction * memory.total_bytes:
                short.append(device)
            elif memory is not None:
                freest.append(tr("{} of {}").format(format_size(memory.free_bytes), format_size(memory.total_bytes)))
        enough = (
            tr("{} of the device are free").format(", ".join(freest))
            if freest
            else tr("{} does not report free memory").format(framework.name)
        )
        return cls(
            sum(figure.allocated_bytes or 0 for figure in figures.values()),
            sum(figure.reserved_bytes or 0 for figure in figures.values()),
            sum(_spare(figures[device]) for device in short or figures),
            None if short else enough,
        )


def _spare(figures: Figures) -> int:
    return max(0, (figures.reserved_bytes or 0) - (figures.allocated_bytes or 0))


class Work:
    """The work of the grades of one cleaner. Sizes are in bytes."""

    def __init__(self, limits: Limits, files: Sequence[Path], drop_caches: bool) -> None:
        self._limits = limits
        self._files = files
        self._drop_caches = drop_caches
        self.min_allocated: int | None = None  # since the last search for cycles; None: there was none
        self.found: tuple[Cycle, ...] = ()  # by the last search

    def prospect(self, grade: Grade, framework: Framework | None, at_the_end: bool) -> Prospect:
        if grade == Grade.PAGE_CACHE:
            return self._of_page_cache()
        if framework is None:
            return Prospect(None, 0, impossible=tr(NO_GPU))
        if grade == Grade.HOST:
            return self._of_host_cache(framework)
        if grade == Grade.CYCLES:  # may run at each step, so it reads only what it needs
            figures = [framework.figures(device) for device in framework.devices()]
            return self._of_cycles(sum(figure.allocated_bytes or 0 for figure in figures), at_the_end)
        state = State.of(framework, self._limits)
        if grade == Grade.CACHE:
            return Prospect(state.spare_bytes, state.reserved_bytes, state.sufficient_reason)
        return Prospect(None, state.allocated_bytes, state.sufficient_reason)

    def do(self, grade: Grade, framework: Framework | None) -> str | None:
        """Run a grade. Returns None, or why it could not run.

        Raises:
            OSError: The system refused.
        """
        if grade == Grade.PAGE_CACHE:
            return self._drop_pages()
        if framework is None:
            return tr(NO_GPU)
        if grade == Grade.CYCLES:
            self.found = tuple(find_cycles(collect=True))
        elif grade == Grade.CACHE:
            framework.release_cache()
        elif grade == Grade.WORKSPACES:
            return framework.clear_workspaces()
        else:
            return framework.release_host_cache()
        return None

    def _of_cycles(self, allocated: int, at_the_end: bool) -> Prospect:
        """Return the prospect of CYCLES: cycles cannot hold more than was allocated since there were none, if that is known."""
        if self.min_allocated is None:
            return Prospect(allocated, allocated)
        self.min_allocated = min(self.min_allocated, allocated)
        return Prospect(allocated - (0 if at_the_end else self.min_allocated), allocated)

    def _of_host_cache(self, framework: Framework) -> Prospect:
        pinned = framework.pinned_bytes()
        memory = _host.host_memory()
        if pinned is None or memory is None:
            return Prospect(None, 0, impossible=tr("{} does not report its pinned memory").format(framework.name))
        return Prospect(pinned, pinned, self._sufficient_reason(memory.available_bytes, memory.total_bytes))

    def _of_page_cache(self) -> Prospect:
        memory = _host.host_memory()
        if not self._files and not self._drop_caches:
            return Prospect(None, 0, impossible=tr("not configured: pass files= or drop_caches=True"))
        try:
            kept = _host.cached_bytes(self._files)
        except OSError as error:
            return Prospect(None, 0, impossible=tr("{}; name files that are there").format(error))
        if memory is None:
            return Prospect(kept, kept)
        kept = memory.file_bytes + memory.slab_bytes if self._drop_caches else kept
        return Prospect(kept, kept, self._sufficient_reason(memory.free_bytes, memory.total_bytes))

    def _sufficient_reason(self, free: int, total: int) -> str | None:
        if free < self._limits.min_free_fraction * total:
            return None
        return tr("{} of {} of the host are free").format(format_size(free), format_size(total))

    def _drop_pages(self) -> str | None:
        if self._drop_caches:
            _host.drop_caches()
        else:
            _host.forget_files(self._files)
        return None

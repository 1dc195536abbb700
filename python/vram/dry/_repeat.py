"""Programs that dry runs stop after some steps, and run again with other sizes and with changes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vram._texts import tr
from vram.dry._run import Run, TracedRun

if TYPE_CHECKING:
    from vram.dry._changes import Changes


# Steps of the optimizer, unless the user says otherwise. Its states exist from the second on; the cached memory of the allocator is
# divided differently in each of the first few, so the least memory grows. The margins were measured with as many.
STEPS = 4
STEPS_WITH_STATES = 2


class EnoughSteps(BaseException):
    """Ends a program. Programs catch exceptions, and this is not one of theirs."""


@contextlib.contextmanager
def stopped_after(run: TracedRun, steps: int) -> Iterator[None]:
    """End the ``with`` block, within that of the run, once the optimizer has stepped `steps` times; warn if it ends by itself before.

    The optimizer may step in another thread, for which this one waits.
    """
    with contextlib.suppress(EnoughSteps), run.ending_with(EnoughSteps) as end:

        def stop(number: int) -> None:
            if number >= steps:
                end()
                raise EnoughSteps

        run.on_step(stop)
        yield
    if 0 < run.steps < min(steps, STEPS_WITH_STATES):
        warnings.warn(
            tr(
                "the program ended after one step of its optimizer; what the states of the optimizer add to the peak of a later step is not "
                "predicted"
            ),
            stacklevel=3,
        )


@dataclass(frozen=True)
class Program:
    """A program that dry runs can run more than once.

    Attributes:
        call: Runs it from its beginning; takes the sizes.
        steps: After so many steps of its optimizer, it is stopped.
        sizes: The arguments that are sizes, by name.
    """

    call: Callable[..., object]
    steps: int
    sizes: Mapping[str, int] = field(default_factory=dict)

    def with_sizes(self, sizes: Mapping[str, int]) -> Program:
        return replace(self, sizes={**self.sizes, **sizes})

    def run_in(self, run: Run, changes: Changes | None = None) -> Run:
        """Run the program from its beginning in a run that has not begun, and return that run."""
        import torch

        from vram._frameworks._training import training_framework
        from vram.dry._changes import Changes
        from vram.recover._randomness import Randomness

        changes = changes or Changes()
        randomness, dtype = Randomness(training_framework()), torch.get_default_dtype()
        try:
            with changes.around(), run, changes.inside(run), stopped_after(run, self.steps):
                self.call(**self.sizes)
        finally:
            randomness.restore()
            torch.set_default_dtype(dtype)
        return run

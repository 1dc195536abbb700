"""A plan, and what was measured for it; without PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from vram._sizes import format_size
from vram._texts import tr
from vram.planning._region import CheckpointRegion


@dataclass(frozen=True)
class CheckpointTrial:
    """A way to train in less memory, as it was measured.

    Attributes:
        way: What was compiled, and how.
        peak_bytes, step_ns: The highest peak and the median time of its steps; None: it ran out of memory or could not be compiled.
    """

    way: str
    peak_bytes: int | None
    step_ns: int | None

    def __str__(self) -> str:
        if self.peak_bytes is None or self.step_ns is None:
            return tr("{}: did not run").format(self.way)
        return f"{self.way}: {format_size(self.peak_bytes)}, {self.step_ns / 1e6:.1f} ms"


@dataclass(frozen=True)
class CheckpointPlan:
    """Which blocks of a model run again in backward. Printing it lists them. It can be pickled.

    Attributes:
        budget_bytes: The requested budget.
        peak_bytes: The peak of allocated bytes in a dry run of the step with this plan, or as measured with compile=True; at most the budget.
        full_peak_bytes: The same without recomputation; if that does not fit into the GPU, an estimate, and too low if a single block does not.
        step_ns, full_step_ns: The times of a forward and backward pass, with this plan and without recomputation; estimated, or
            measured with compile=True.
        names: The names of the blocks.
        regions: The blocks that run again, with those inside that do so twice.
        compiled: What is compiled: None, "blocks" or "model".
        activation_budgets: The ``activation_memory_budget`` with which each block, or the model, is compiled.
        tried: What was measured with compile=True.
        search_seconds: How long that took, with compilation.
    """

    budget_bytes: int
    peak_bytes: int
    full_peak_bytes: int
    step_ns: int
    full_step_ns: int
    names: tuple[str, ...]
    regions: tuple[CheckpointRegion, ...]
    compiled: str | None = None
    activation_budgets: tuple[float, ...] = ()
    tried: tuple[CheckpointTrial, ...] = ()
    search_seconds: float = 0.0

    @property
    def saved_bytes(self) -> int:
        """How much lower the peak is than without recomputation."""
        return self.full_peak_bytes - self.peak_bytes

    @property
    def added_share(self) -> float:
        """By what share of its time the step becomes longer, by the estimated times."""
        return self.step_ns / self.full_step_ns - 1 if self.full_step_ns else 0.0

    def __str__(self) -> str:
        lines = [
            tr("peak {} of a budget of {}; {} without recomputation; a step takes {:+.1f} % of the {} time").format(
                format_size(self.peak_bytes),
                format_size(self.budget_bytes),
                format_size(self.full_peak_bytes),
                100 * self.added_share,
                tr("measured") if self.tried else tr("estimated"),
            )
        ]
        lines.extend(self._describe_compiled())
        if not self.regions and not self.compiled:
            lines.append(tr("  everything is kept"))
        lines.extend(self._describe(self.regions, "  "))
        if self.tried:
            lines.append(tr("measured in {:.0f} s, with compilation:").format(self.search_seconds))
        lines.extend(f"  {each}" for each in self.tried)
        return "\n".join(lines)

    def _describe_compiled(self) -> Iterator[str]:
        if self.compiled == "model":
            yield tr("  the model is compiled with activation_memory_budget {:g}").format(self.activation_budgets[0])
        elif self.compiled == "blocks":
            for first, last in _runs(self.activation_budgets):
                names = (
                    self.names[first] if first == last else tr("{} to {}").format(self.names[first], self.names[last])
                )
                yield tr("  {}: compiled with activation_memory_budget {:g}").format(
                    names, self.activation_budgets[first]
                )

    def _describe(self, regions: Iterable[CheckpointRegion], indent: str) -> Iterator[str]:
        for region in regions:
            names = self.names[region.first]
            if region.first != region.last:
                names = tr("{} to {}").format(names, self.names[region.last])
            what = (
                tr("again, except matrix products, convolutions and attention")
                if region.keeps_products
                else tr("again")
            )
            yield indent + tr("{}: {}").format(names, what)
            yield from self._describe(region.parts, indent + "  ")


def _runs(values: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Yield the first and last number of consecutive equal values."""
    first = 0
    for number in range(1, len(values) + 1):
        if number == len(values) or values[number] != values[first]:
            yield first, number - 1
            first = number

"""Which layers of a Keras model to run again in backward, so that training fits into a budget. Importing this module does not import keras."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vram._error import VramError
from vram._public import publish
from vram._sizes import format_size, parse_limit
from vram._texts import tr

__all__ = ["RematPlan", "plan_remat"]


class _LayerNames:
    """The names of layers, which are not known before the model is built. Keras asks for them when a layer is called."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self.names


@dataclass(frozen=True)
class RematPlan:
    """Which layers of a Keras model run again in backward. Printing it lists them. It can be pickled.

    Attributes:
        budget_bytes: The requested budget.
        peak_bytes: The peak of allocated bytes in a dry run of the step with this plan; at most the budget.
        full_peak_bytes: The same without recomputation.
        step_ns, full_step_ns: The estimated times of a forward and backward pass, with this plan and without recomputation.
        layers: The names of the layers that run again.
        numbers: Their numbers in ``model.layers``.
        count: How many layers the model has.
    """

    budget_bytes: int
    peak_bytes: int
    full_peak_bytes: int
    step_ns: int
    full_step_ns: int
    layers: tuple[str, ...]
    numbers: tuple[int, ...]
    count: int

    def build(self, build: Callable[[], Any]) -> Any:
        """Return a model whose layers run again as planned: what `build` returns, built inside ``keras.RematScope``.

        Args:
            build: As in plan_remat(): returns a new model. The names of its layers may differ.

        Raises:
            ValueError: The model is another one than was planned.
        """
        names = _LayerNames()
        model = _built(build, names)
        if len(model.layers) != self.count:
            raise ValueError(
                tr("expected the model for which was planned, with {} layers, got one with {}; plan this model").format(
                    self.count, len(model.layers)
                )
            )
        names.names = frozenset(model.layers[number].name for number in self.numbers)
        return model

    def __str__(self) -> str:
        """Return the layers that run again, what that saves, and what it costs."""
        added = 100 * (self.step_ns / self.full_step_ns - 1) if self.full_step_ns else 0.0
        lines = [
            tr(
                "peak {} of a budget of {}; {} without recomputation; a step takes {:+.1f} % of the estimated time"
            ).format(
                format_size(self.peak_bytes), format_size(self.budget_bytes), format_size(self.full_peak_bytes), added
            )
        ]
        lines.extend("  " + tr("{}: {}").format(name, tr("again")) for name in self.layers)
        if not self.layers:
            lines.append(tr("  everything is kept"))
        return "\n".join(lines)


def plan_remat(
    build: Callable[[], Any],
    sample: Any,
    budget: int | str,
    *,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Callable[[], Any] | None = None,
    gpu: str | None = None,
) -> RematPlan:
    """Find which layers of a Keras model to run again in backward so that a training step needs at most `budget`, and takes the least time.

    The step runs in a dry run (docs/dry-run.md) with Keras on PyTorch, without a GPU. Layers that draw random numbers or collect statistics
    are kept: Keras would draw other numbers when they run again, and count the statistics twice.

    Args:
        build: Returns a new model, whose layers are called once each (Functional or Sequential).
        sample: What the model is called with, as large as in training: arrays or tensors.
        budget: What PyTorch's allocator may have allocated at one time: "20GiB" or bytes.
        loss: Computes the loss from what the model returns. By default the sum of its results.
        optimizer: Returns a new Keras optimizer, so that its states and its step count.
        gpu: As in vram.dry_run(); by default the GPU of this machine, or an H200.

    Raises:
        ValueError: An argument is invalid.
        VramError: Nothing fits into the budget; the message names the least that does. Or Keras runs on another backend than PyTorch, or
            the dry run cannot follow the model.

    Example (needs Keras on PyTorch)::

        plan = vram.keras.plan_remat(build, sample, "20GiB", loss=loss)
        model = plan.build(build)

    >>> import vram
    >>> vram.keras.RematPlan(1 << 30, 0, 0, 0, 0, ("block_3",), (3,), 5).layers
    ('block_3',)
    """
    from vram.planning._remat import find_plan

    return find_plan(build, sample, parse_limit(budget), loss, optimizer, gpu)


def _built(build: Callable[[], Any], names: _LayerNames) -> Any:
    import keras

    with keras.RematScope(mode="list_of_layers", layer_names=names):
        model = build()
    if not hasattr(model, "layers"):
        raise VramError(tr("expected build() to return a Keras model with layers, got {}").format(type(model).__name__))
    return model


publish(globals())

"""vram.keras.plan_remat(): layers of a Keras model on PyTorch, in a dry run."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from vram._error import VramError
from vram._sizes import format_size
from vram._texts import tr
from vram.dry import DryRun, dry_run
from vram.dry._values import DryRunError
from vram.keras import RematPlan, _built, _LayerNames
from vram.planning import _chain
from vram.planning._chain import Costs
from vram.planning._measure import Step, watched_step
from vram.planning._question import gpu_here, loss_of

_SHARES = 20  # of the peak without recomputation: the budgets that are tried for an error
_ROUNDS = 12  # how often a schedule is solved for less, after the dry run of one needed more than the budget


def find_plan(
    build: Callable[[], Any],
    sample: Any,
    budget_bytes: int,
    loss: Callable[[Any], Any] | None,
    optimizer: Callable[[], Any] | None,
    gpu: str | None,
) -> RematPlan:
    """As vram.keras.plan_remat()."""
    import keras

    if keras.backend.backend() != "torch":
        raise VramError(
            tr(
                "Keras runs on {}, whose compiler decides itself what to keep, and a dry run follows "
                "PyTorch only: set KERAS_BACKEND=torch before keras is imported, or choose layers by "
                "measurement with keras.RematScope"
            ).format(keras.backend.backend())
        )
    state = random.getstate()
    try:
        with (
            warnings.catch_warnings(),
            dry_run(gpu or gpu_here(), assume=_seeds()) as run,
            keras.device("cuda:0"),
        ):
            warnings.simplefilter("ignore")
            return _Search(build, sample, loss or loss_of, optimizer, run).plan(budget_bytes)
    finally:
        random.setstate(state)


def _seeds() -> dict[str, int]:
    """Return what a dry run assumes where Keras reads a seed from the GPU: no size depends on it.

    The line is found here, since an error while a model is built would leave Keras in the middle of it.
    """
    import keras

    try:
        with dry_run("1TiB"), keras.device("cuda:0"):
            keras.random.uniform((1,), seed=1)
    except DryRunError as error:
        line = re.match(r"(.+:\d+): item\(\)", str(error))
        return {line[1]: 1} if line else {}
    return {}


class _Search:
    """A model during a dry run, and its steps."""

    def __init__(
        self,
        build: Callable[[], Any],
        sample: Any,
        loss: Callable[[Any], Any],
        optimizer: Callable[[], Any] | None,
        run: DryRun,
    ) -> None:
        import keras

        self._names, self._loss = _LayerNames(), loss
        self._model = _built(build, self._names)
        self._sample = keras.tree.map_structure(keras.ops.convert_to_tensor, sample)
        self._optimizer = optimizer() if optimizer is not None else None
        self._clock = lambda: int(run._running().clock.now_ns)
        self._numbers = [
            i for i, each in enumerate(self._model.layers) if not isinstance(each, keras.layers.InputLayer)
        ]
        self._layers = [self._model.layers[i] for i in self._numbers]

    def plan(self, budget_bytes: int) -> RematPlan:
        self._run()  # builds what layers and the optimizer make at their first call
        full_peak = self._peak(())
        step = self._watched()
        keep = _chain.costs_of(step, len(self._layers))
        full_ns = _chain.time_of(keep)
        if full_peak <= budget_bytes:
            return self._plan(budget_bytes, full_peak, full_peak, full_ns, full_ns, ())
        again = self._again(step, keep)
        names = [layer.name for layer in self._layers]
        document = _chain.chain(names, step, {"keep": keep, "again": again}, again, is_single=True)
        every = tuple(i for i, layer in enumerate(self._layers) if _is_pure(layer))
        every_peak = self._peak(every)
        wanted, best, tried = budget_bytes, None, set[tuple[int, ...]]()
        for _ in range(_ROUNDS):
            try:
                solved = _chain.solve(document, wanted, is_single=True)
            except _chain.TooSmall:
                break
            chosen = self._chosen(solved)
            if chosen in tried:
                break
            tried.add(chosen)
            peak = self._peak(chosen)
            if peak > budget_bytes:
                wanted -= max(peak - budget_bytes, budget_bytes >> 12)
                continue
            if best is None or solved.time_ns < best.step_ns:
                best = self._plan(budget_bytes, peak, full_peak, solved.time_ns, full_ns, chosen)
            wanted += budget_bytes - peak  # the chain counts too much, where two layers keep the same tensor
        if best is not None:
            return best
        if every_peak <= budget_bytes:
            time_ns = full_ns + sum(keep[i].forward_ns for i in every)
            return self._plan(budget_bytes, every_peak, full_peak, time_ns, full_ns, every)
        least = min([every_peak, *self._peaks_below(full_peak, document)])
        raise VramError(
            tr(
                "no choice of layers to run again lets the step run in {} ({} bytes): it needs about {} "
                "({} bytes), and {} without recomputation; use a larger budget, a smaller batch, or "
                "layers that contain more of the model"
            ).format(format_size(budget_bytes), budget_bytes, format_size(least), least, format_size(full_peak))
        )

    def _peaks_below(self, full_peak: int, document: dict[str, Any]) -> Iterator[int]:
        """Yield the peaks of plans for smaller and smaller budgets."""
        with contextlib.suppress(_chain.TooSmall):
            for share in range(_SHARES - 1, 0, -1):
                solved = _chain.solve(document, full_peak * share // _SHARES, is_single=True)
                yield self._peak(self._chosen(solved))

    def _chosen(self, solved: _chain.Solved) -> tuple[int, ...]:
        return tuple(i for i, layer in enumerate(self._layers) if _is_pure(layer) and solved.options[i] == "again")

    def _plan(
        self, budget: int, peak: int, full_peak: int, time_ns: int, full_ns: int, chosen: tuple[int, ...]
    ) -> RematPlan:
        names = tuple(self._layers[i].name for i in chosen)
        numbers = tuple(self._numbers[i] for i in chosen)
        return RematPlan(budget, peak, full_peak, time_ns, full_ns, names, numbers, len(self._model.layers))

    def _forward(self) -> Any:
        self._model.zero_grad()
        return self._loss(self._model(self._sample, training=True))

    def _run(self) -> None:
        self._forward().backward()
        self._update()

    def _update(self) -> None:
        if self._optimizer is not None:
            variables = self._model.trainable_variables
            with torch.no_grad():
                self._optimizer.apply([v.value.grad for v in variables], variables)

    def _peak(self, chosen: tuple[int, ...]) -> int:
        self._names.names = frozenset(self._layers[i].name for i in chosen)
        torch.cuda.reset_peak_memory_stats()
        self._run()
        self._names.names = frozenset()
        return int(torch.cuda.max_memory_allocated())

    def _watched(self) -> Step:
        return watched_step(self._layers, self._forward, self._clock, method="call")

    def _again(self, step: Step, keep: list[Costs]) -> list[Costs]:
        """What each layer takes if it keeps its input only."""
        found = list(keep)
        for number, (layer, costs) in enumerate(zip(self._layers, keep)):
            output = step.border_bytes[number]
            if _is_pure(layer):
                found[number] = replace(
                    costs,
                    kept_bytes=min(output, costs.kept_bytes),
                    backward_ns=costs.forward_ns + costs.backward_ns,
                    backward_peak_bytes=max(costs.backward_peak_bytes, costs.forward_peak_bytes + output),
                )
        return found


def _is_pure(layer: Any) -> bool:
    """Whether running it again gives the same: it has no seeds and no statistics, which Keras would change once more."""
    return not layer.non_trainable_variables

"""A batch cut into parts for a function of it, and the results put together again, if they belong to samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from vram._error import VramError
from vram.recover import _trees
from vram.recover._randomness import Randomness
from vram.recover._tries import Tries

_ADVICE = (
    "Return one value for each sample (logits, losses without reduction), or say by join=function(results) how the parts' "
    "results are put together (join=torch.cat, say; a list with each part's result is what it gets)"
)


class InParts:
    """One call of a function with a batch."""

    def __init__(self, tries: Tries, whole: Any, call: Callable[[Any], Any]) -> None:
        self._tries = tries
        self._whole = whole
        self._call = call
        self._total = _trees.samples(whole)

    def result(self) -> Any:
        rules = self._tries.rules
        result = self._tries.until_it_works(min(self._total, rules.remembered or self._total), self._run)
        if self._tries.count > 1:
            rules.remembered = self._tries.size
        return result

    def _run(self, size: int) -> Any:
        if size >= self._total:
            return self._call(self._whole)
        rules, framework = self._tries.rules, self._tries.framework
        with self._without_backward(), self._tries.silently():
            before = Randomness(framework)
            ranges = [(start, min(start + size, self._total)) for start in range(0, self._total, size)]
            results = [self._of(*part) for part in ranges]
            if rules.join is not None:
                return rules.join(results)
            joined = self._joined(results, ranges)
            if not rules.shown:
                self._show(results[0], ranges[0][1], before.has_moved(framework))
        return joined

    def _again(self, randomness: Randomness, start: int, stop: int) -> Any:
        """With what Python and NumPy draw the same each time."""
        randomness.restore()
        return self._of(start, stop)

    def _of(self, start: int, stop: int) -> Any:
        return self._call(_trees.part(self._whole, start, stop, self._total))

    def _joined(self, results: list[Any], ranges: list[tuple[int, int]]) -> Any:
        lengths = [stop - start for start, stop in ranges]
        return _trees.join(results, lengths, self._tries.framework, _ADVICE)

    def _show(self, first: Any, size: int, drew: bool) -> None:
        """That the first part's result is the same in two parts. VramError: it is not."""
        framework = self._tries.framework
        if size < 2:
            raise VramError(
                "only one sample at a time fits, so that it can't be seen whether the results belong to the samples. "
                + _ADVICE
            )
        ranges = [(0, (size + 2) // 3), ((size + 2) // 3, size)]
        randomness = Randomness(framework)
        try:
            with framework.comparing() if drew else nullcontext():
                first = self._again(randomness, 0, size) if drew else first
                results = [self._again(randomness, *part) for part in ranges]
        finally:
            randomness.restore()
        different = _trees.difference(first, self._joined(results, ranges), framework)
        if different is not None:
            raise VramError(
                f"{different} of the first {size} samples is another one when they come in two parts: it depends on which samples "
                f"are there. {_ADVICE}"
            )
        self._tries.rules.shown = True

    @contextmanager
    def _without_backward(self) -> Iterator[None]:
        def refuse(_leaf: Any) -> None:
            raise VramError(
                "the function calls backward, so each part would add its gradient, which differs from that of a mean over the "
                "batch. Use vram.micro_batches for training, or torch.autograd.grad for gradients that the function returns"
            )

        with self._tries.framework.accumulations(refuse):
            yield

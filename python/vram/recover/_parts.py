"""A batch cut into parts for a function of it, and the results put together again, if they belong to samples."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from vram._error import VramError
from vram._texts import tr, tr_later
from vram.recover import _trees
from vram.recover._changed import Versions
from vram.recover._randomness import Randomness
from vram.recover._trees import Joining
from vram.recover._tries import Tries

_ADVICE = tr_later(
    "Return one value for each sample (logits, losses without reduction), or say by "
    "join=function(results) how the parts' results are put together (join=torch.cat, say; a "
    "list with each part's result is what it gets)"
)


class InParts:
    """One call of a function with a batch."""

    def __init__(self, tries: Tries, whole: Any, call: Callable[[Any], Any], claim: Hashable) -> None:
        """claim: for what its results are shown to belong to samples."""
        self._tries = tries
        self._claim = claim
        self._versions = Versions(whole)
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
        if self._tries.count > 1:
            self._versions.require_unchanged("the function")
        if size >= self._total:
            return self._call(self._whole)
        rules, framework = self._tries.rules, self._tries.framework
        with self._without_backward(), self._tries.silently():
            before = Randomness(framework)
            ranges = [(start, min(start + size, self._total)) for start in range(0, self._total, size)]
            results = [self._of(*part) for part in ranges]
            if rules.join is not None:
                return rules.join(results)
            shown = rules.shown.get(self._claim)
            if shown is not None:
                joining, joined = self._joined(results, ranges)
                if joining.is_as(shown):
                    return joined
            shown = rules.shown[self._claim] = self._show(results[0], ranges[0][1], before.has_moved(framework))
            return self._joined(results, ranges, shown)[1]

    def _of(self, start: int, stop: int) -> Any:
        return self._call(_trees.part(self._whole, start, stop, self._total))

    def _joined(
        self, results: list[Any], ranges: list[tuple[int, int]], like: Joining | None = None
    ) -> tuple[Joining, Any]:
        joining = Joining(self._tries.framework, tr(_ADVICE), like)
        return joining, joining.result(results, [stop - start for start, stop in ranges])

    def _show(self, first: Any, size: int, drew: bool) -> Joining:
        """How results are put together, by the first part's in two parts, which must be the same. VramError: they are not."""
        framework = self._tries.framework
        if size < 2:
            raise VramError(
                tr(
                    "only one sample at a time fits, so that it can't be seen whether the results belong to "
                    "the samples. "
                )
                + tr(_ADVICE)
            )
        ranges = [(0, (size + 2) // 3), ((size + 2) // 3, size)]
        randomness = Randomness(framework)
        try:
            with framework.rehearsal([]).run() if drew else nullcontext():
                first = self._again(randomness, 0, size) if drew else first
                results = [self._again(randomness, *part) for part in ranges]
        finally:
            randomness.restore()
        joining, joined = self._joined(results, ranges)
        different = _trees.difference(first, joined, framework)
        if different is not None:
            raise VramError(
                tr(
                    "{} of the first {} samples is another one when they come in two parts: it depends on "
                    "which samples are there. {}"
                ).format(different, size, tr(_ADVICE))
            )
        return joining

    def _again(self, randomness: Randomness, start: int, stop: int) -> Any:
        """With what Python and NumPy draw the same each time."""
        self._versions.require_unchanged("the function")
        randomness.restore()
        return self._of(start, stop)

    @contextmanager
    def _without_backward(self) -> Iterator[None]:
        def refuse(_leaf: Any) -> None:
            raise VramError(
                tr(
                    "the function calls backward, so each part would add its gradient, which differs from "
                    "that of a mean over the batch. Use vram.micro_batches for training, or "
                    "torch.autograd.grad for gradients that the function returns"
                )
            )

        with self._tries.framework.accumulations(refuse):
            yield

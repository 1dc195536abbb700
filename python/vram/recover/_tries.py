"""The calls of one function: with less each time, until one of them works on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from vram._error import VramError
from vram._frameworks._training import Differentiating
from vram.recover._oom import Failure, attempt, free
from vram.recover._randomness import Randomness
from vram.recover._votes import OUT_OF_MEMORY, WORKED, Votes, world_size

_COMMUNICATES = (
    "the function communicates with other ranks, so that it can't be called again, or in parts, by one of them: the others "
    "would wait. Let it compute only, and communicate after it; or group=False if only ranks in the same situation are asked"
)


@dataclass
class Rules:
    """Of one decorated function: see retry_on_oom."""

    argument: str | None
    shrink: Callable[[int], int] | None
    multiple_of: int
    min_size: int
    max_attempts: int
    from_scratch: bool
    join: Callable[[list[Any]], Any] | None
    group: Any = None
    remembered: int | None = None  # samples; of functions that take a batch
    shown: bool = False  # results belong to samples
    silent: bool = False  # the function was seen to work without communication

    def smaller(self, size: int) -> int:
        """0 where nothing smaller may be tried."""
        if self.shrink is not None:
            smaller = int(self.shrink(size))
            if smaller >= size:
                raise VramError(f"shrink({size}) gave {smaller}; it must give less")
        else:
            half = size // 2
            smaller = half // self.multiple_of * self.multiple_of or half
        return smaller if smaller >= self.min_size else 0


class Added:
    """What backward passes within an attempt have added to gradients."""

    def __init__(self) -> None:
        self.to_earlier = False  # and so can't be taken away again
        self._fresh: dict[int, Any] = {}  # weak: tensors that had no gradient before

    def begins(self, leaf: Any) -> None:
        import torch.utils.weak  # the program has imported PyTorch

        known = self._fresh.get(id(leaf))
        if known is None or known() is not leaf:
            self.to_earlier |= leaf.grad is not None
            self._fresh[id(leaf)] = torch.utils.weak.TensorWeakRef(leaf)

    def undo(self) -> None:
        for leaf in [reference() for reference in self._fresh.values()]:
            if leaf is not None:
                leaf.grad = None


class Tries:
    """Of one call of a decorated function."""

    def __init__(self, framework: Differentiating, rules: Rules, votes: Votes, name: str) -> None:
        self.framework = framework
        self.rules = rules
        self.size = 0
        self.count = 0
        self._failures: list[tuple[int, Failure]] = []
        self._votes = votes
        self._name = name
        self._randomness = Randomness(framework)

    def until_it_works(self, size: int, run: Callable[[int], Any]) -> Any:
        asked, again = size, True  # again: with the same size, if there was something to free
        while True:
            self.size, self.count = size, self.count + 1
            with self._votes.reporting():
                value, failed = self._once(size, run)
            worst, largest = self._votes.worst(OUT_OF_MEMORY if failed else WORKED, size)
            if worst == WORKED:
                self.rules.silent = True
                return value
            del value
            with self._votes.reporting():
                freed = free(self.framework)
                self._randomness.restore()
            _, freed = self._votes.worst(WORKED, freed)
            if self.count >= self.rules.max_attempts:
                raise self._error("no more tries")
            again, same = False, again and freed > 0
            smaller = largest if same else self.rules.smaller(largest)
            size = min(asked, smaller)
            if not size:
                raise self._error(f"nothing smaller may be tried (minimum {self.rules.min_size})")

    def _once(self, size: int, run: Callable[[int], Any]) -> tuple[Any, bool]:
        """The value, and whether memory ran out. Raises where nothing may be called again."""
        added = Added()
        together = self.rules.group is not None and not self.rules.silent
        with ExitStack() as stack:
            stack.enter_context(self.framework.accumulations(added.begins))
            if together or self.count > 1:
                stack.enter_context(self.silently())
            outcome = attempt(self.framework, lambda: run(size))
        if outcome.failure is None:
            return outcome.value, False
        self._failures.append((size, outcome.failure))
        if not self.rules.from_scratch:
            if outcome.stepped:
                raise self._error("an optimizer had begun its step, which is never run again (see from_scratch)")
            if added.to_earlier:
                raise self._error(
                    "its backward had added to gradients that were there before the call, which can't be undone. Begin it "
                    "with zero_grad(set_to_none=True), or use vram.micro_batches"
                )
            added.undo()
        return None, True

    def silently(self) -> AbstractContextManager[Any]:
        """Within it the function must not communicate: ranks do not call it equally often."""
        alone = self.rules.group is False or world_size() == 1
        return nullcontext() if alone else self.framework.silent(_COMMUNICATES)

    def _error(self, why: str) -> BaseException:
        tried = "; ".join(f"{size}: {failure}" for size, failure in self._failures) or "none; it was another rank"
        return self.framework.out_of_memory(f"{self._name} ran out of memory: {why}. Tried sizes {tried}")

"""The calls of one function: with less each time, until one of them works on all ranks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

from vram._arguments import require_integers
from vram._error import VramError
from vram._frameworks._training import Differentiating
from vram._texts import tr, tr_later
from vram.recover._oom import Failure, Outcome, attempt, free
from vram.recover._randomness import Randomness
from vram.recover._trees import Joining
from vram.recover._votes import OUT_OF_MEMORY, WORKED, Votes, world_size

_COMMUNICATES = tr_later(
    "the function communicates with other ranks, so that it can't be called again, or in "
    "parts, by one of them: the others would wait. Let it compute only, and communicate "
    "after it; or group=False if only ranks in the same situation are asked"
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
    # How results were put together that were shown to belong to samples, by claim.
    shown: dict[Hashable, Joining] = field(default_factory=dict)
    silent: bool = False  # the function was seen to work without communication

    def __post_init__(self) -> None:
        require_integers(1, multiple_of=self.multiple_of, min_size=self.min_size, max_attempts=self.max_attempts)

    def smaller(self, size: int) -> int:
        """0 where nothing smaller may be tried."""
        if self.shrink is not None:
            smaller = int(self.shrink(size))
            if smaller >= size:
                raise VramError(tr("shrink({}) gave {}; it must give less").format(size, smaller))
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
            added = Added()
            with self._votes.reporting():
                outcome = self._once(size, run, added)
            worst, largest = self._votes.worst(OUT_OF_MEMORY if outcome.failure else WORKED, size)
            if worst == WORKED:
                self.rules.silent = True
                return outcome.value
            with self._votes.reporting():
                self._undo(outcome.stepped, added)
                del outcome
                freed = free(self.framework)
                self._randomness.restore()
            _, freed = self._votes.worst(WORKED, freed)
            if self.count >= self.rules.max_attempts:
                raise self._error(tr("no more tries"))
            again, same = False, again and freed > 0
            smaller = largest if same else self.rules.smaller(largest)
            size = min(asked, smaller)
            if not size:
                raise self._error(tr("nothing smaller may be tried (minimum {})").format(self.rules.min_size))

    def _once(self, size: int, run: Callable[[int], Any], added: Added) -> Outcome[Any]:
        together = self.rules.group is not None and not self.rules.silent
        with ExitStack() as stack:
            stack.enter_context(self.framework.accumulations(added.begins))
            if together or self.count > 1:
                stack.enter_context(self.silently())
            outcome = attempt(self.framework, lambda: run(size))
        if outcome.failure is not None:
            self._failures.append((size, outcome.failure))
        return outcome

    def _undo(self, stepped: bool, added: Added) -> None:
        """Before the function is called again, here or on all ranks. Raises where that can't be."""
        if self.rules.from_scratch:
            return
        if stepped:
            raise self._error(tr("an optimizer had begun its step, which is never run again (see from_scratch)"))
        if added.to_earlier:
            raise self._error(
                tr(
                    "its backward had added to gradients that were there before the call, which can't be "
                    "undone. Begin it with zero_grad(set_to_none=True), or use vram.micro_batches"
                )
            )
        added.undo()

    def silently(self) -> AbstractContextManager[Any]:
        """Within it the function must not communicate: ranks do not call it equally often."""
        alone = self.rules.group is False or world_size() == 1
        return nullcontext() if alone else self.framework.silent(tr(_COMMUNICATES))

    def _error(self, why: str) -> BaseException:
        tried = "; ".join(f"{size}: {failure}" for size, failure in self._failures) or tr("none; it was another rank")
        return self.framework.out_of_memory(
            tr("{} ran out of memory: {}. Tried sizes {}").format(self._name, why, tried)
        )

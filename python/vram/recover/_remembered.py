"""What is remembered from one batch to the next: the micro-batch size that worked, and what was shown to be equal."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from vram._frameworks._training import Precision

_MAX_STEPS = 1000  # functions of one model
_sizes: weakref.WeakKeyDictionary[Any, Remembered] = weakref.WeakKeyDictionary()


@dataclass
class Shown:
    """Of one step function: that split its loss is the whole batch's, for divisors of these kinds; and that it keeps silent."""

    kinds: list[set[str]] | None = None  # see _check.kinds_of; None: not known
    precision: Precision = Precision.DOUBLE  # the coarsest that was seen
    gradients: int = 0  # samples of the micro-batch whose gradients were compared too, at most 2
    batches: int = 0  # that were split, since
    silent: bool = False  # a batch was run without communication, though other ranks were there

    @property
    def is_due(self) -> bool:
        """Whether the next batch that is split is to be compared, after 1, 2, 4, 8 of them."""
        return not self.batches & (self.batches + 1)


@dataclass
class Remembered:
    """Of a model, as long as it lives. Sizes in samples. All ranks of a training go through the same calls, so theirs agree. One thread."""

    limit: int | None = None  # None: nothing failed so far
    thrashed: int = 0  # batches in a row during which the allocator had to give its cache back
    moving: set[str] | None = None  # names of the buffers that a batch has moved; None: there was no batch
    shown: dict[Hashable, Shown] = field(default_factory=dict)
    _worked: int = 0  # batches since the limit last changed
    _patience: int = 1  # by how much longer than asked to wait before growing: doubles with each growth that failed
    _growing: bool = False

    def start(self, samples: int, grow_after: int | None) -> int:
        """The size to begin a batch with."""
        if self.limit is None:
            return samples
        self._growing = grow_after is not None and self._worked >= grow_after * self._patience and not self.thrashed
        return min(samples, self.limit * 2 if self._growing else self.limit)

    def failed(self, size: int) -> int:
        """The size to go on with: half. `size` is more than 1."""
        if self._growing:
            self._patience *= 2
        self.limit = (size + 1) // 2
        self._growing, self._worked = False, 0
        return self.limit

    def worked(self) -> None:
        self._worked += 1
        if self._growing and self.limit is not None:
            self.limit *= 2
            self._growing, self._worked = False, 0

    def step(self, claim: Hashable) -> Shown:
        if len(self.shown) >= _MAX_STEPS:  # a program that makes new kinds of steps all the time
            self.shown.clear()
        return self.shown.setdefault(claim, Shown())


def remembered_of(model: Any) -> Remembered:
    """Of what is trained (not of the step: a new function each time is usual), for as long as that lives."""
    if model not in _sizes:
        _sizes[model] = Remembered()
    return _sizes[model]

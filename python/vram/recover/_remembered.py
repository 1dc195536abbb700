"""The micro-batch size that worked, remembered from one batch to the next, and tried larger again if that is asked for."""

from __future__ import annotations

import weakref
from typing import Any

_sizes: weakref.WeakKeyDictionary[Any, Remembered] = weakref.WeakKeyDictionary()


class Remembered:
    """In samples. All ranks of a training go through the same calls, so theirs agree. One thread."""

    def __init__(self) -> None:
        self.limit: int | None = None  # None: nothing failed so far
        self.checked = False
        self.thrashed = 0  # batches in a row during which the allocator had to give its cache back
        self._worked = 0  # batches since the limit last changed
        self._patience = 1  # by how much longer than asked to wait before growing: doubles with each growth that failed
        self._growing = False

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


def remembered_of(models: list[Any], optimizer: Any) -> Remembered:
    """Of what is trained (not of the step: a new function each time is usual), for as long as that lives."""
    key = models[0] if models else optimizer
    if key not in _sizes:
        _sizes[key] = Remembered()
    return _sizes[key]

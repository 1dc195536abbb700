"""The random numbers of a program: the framework's generators, Python's, and NumPy's if the program uses it."""

from __future__ import annotations

import random
import sys
from typing import Any

from vram._frameworks._training import Differentiating, Training


class Randomness:
    """As it was when this was made. Generators that the program made itself are not in it."""

    def __init__(self, framework: Training) -> None:
        self._framework = framework
        self._state = framework.rng_state()
        self._python = random.getstate()
        numpy: Any = sys.modules.get("numpy.random")
        self._numpy: Any = numpy.get_state() if numpy is not None else None

    def has_moved(self, framework: Differentiating) -> bool:
        """Return whether any code has drawn random numbers since."""
        numpy: Any = sys.modules.get("numpy.random")
        now = numpy.get_state() if numpy is not None and self._numpy is not None else None
        drawn = now is not None and (now[2:] != self._numpy[2:] or bool((now[1] != self._numpy[1]).any()))
        drawn = drawn or random.getstate() != self._python
        return drawn or not framework.same_rng(self._state, framework.rng_state())

    def restore(self) -> None:
        self._framework.restore_rng(self._state)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy.random"].set_state(self._numpy)

"""The kinds of stacks that recordings have, by their names in Python."""

from __future__ import annotations

from vram._prototypes import STACKS_NATIVE, STACKS_NONE, STACKS_PYTHON

STACKS = {None: STACKS_NONE, "python": STACKS_PYTHON, "native": STACKS_NATIVE}

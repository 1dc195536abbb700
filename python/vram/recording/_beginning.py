"""What a recording and a flight recorder have in common: the kinds of stacks by their names in Python, and the beginning."""

from __future__ import annotations

from vram import _marks
from vram._prototypes import STACKS_NATIVE, STACKS_NONE, STACKS_PYTHON
from vram.recording import _process, _taps

STACKS = {None: STACKS_NONE, "python": STACKS_PYTHON, "native": STACKS_NATIVE}


def begin(*, with_stacks: bool) -> bool:
    """Add what belongs to the beginning, and start the taps. Returns whether there is a framework to record.

    Raises:
        VramError: A framework's allocator cannot be recorded.
    """
    _process.describe()
    has_taps = _taps.start(with_stacks=with_stacks)
    _marks.recording_began()
    return has_taps

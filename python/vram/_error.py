"""The error that vram raises."""

from __future__ import annotations


class VramError(RuntimeError):
    """vram cannot do here what was requested; the text says what was expected, what was found, and what to do.

    The reason is the machine, the state of the process, the contents of a file, or what a function of the program does
    when it is called. Arguments that no machine accepts raise ``ValueError`` or ``TypeError``.
    """

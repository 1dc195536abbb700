"""vram: the GPU-memory toolkit for deep learning.

The work is done by the program ``vram``, which comes with this package; ``python -m vram`` runs it too.
"""

from vram._installed import __version__, program

__all__ = ["__version__", "program"]

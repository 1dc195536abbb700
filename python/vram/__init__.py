"""vram: the GPU-memory toolkit for deep learning.

``vram.enable()`` puts the pool under PyTorch, ``vram.cupy.enable()`` under CuPy. Recordings are explained by the program
``vram``, which comes with this package; ``python -m vram`` runs it too.
"""

from vram import cupy
from vram._error import VramError
from vram._installed import program, version
from vram._stats import Stat, Stats, stats
from vram.torch import Enabled, disable, enable, is_enabled
from vram.watching import Watch, watch

__all__ = [
    "Enabled",
    "Stat",
    "Stats",
    "VramError",
    "Watch",
    "__version__",
    "cupy",
    "disable",
    "enable",
    "is_enabled",
    "program",
    "stats",
    "watch",
]


def __getattr__(name: str) -> str:
    if name == "__version__":  # asked of the installer's records only when somebody wants to know
        return version()
    raise AttributeError(f"module 'vram' has no attribute '{name}'")

"""vram: the GPU-memory toolkit for deep learning.

``vram.enable()`` puts the pool under PyTorch, ``vram.cupy.enable()`` under CuPy. ``vram.record()`` writes down what
happens to GPU memory, ``vram.scope()`` and ``vram.step()`` what the program was doing. Recordings are explained by the program
``vram``, which comes with this package; ``python -m vram`` runs it too.
"""

from vram import callbacks, cupy, jax, tensorflow
from vram._error import VramError
from vram._installed import program, version
from vram._stats import Stat, Stats, stats
from vram.clean import Cleaned, Cleaner, Cleaning, Cycle, Grade, find_cycles
from vram.look import (
    Board,
    DeviceUse,
    Gpu,
    GpuProcess,
    JsonLines,
    Measurement,
    Memory,
    Peaks,
    Region,
    TensorBoard,
    add_sink,
    log,
    memory,
    monitor,
    peaks,
    remove_sink,
)
from vram.recording import Recording, is_recording, record, scope, step
from vram.torch import Enabled, disable, enable, is_enabled

__all__ = [
    "Board",
    "Cleaned",
    "Cleaner",
    "Cleaning",
    "Cycle",
    "DeviceUse",
    "Enabled",
    "Gpu",
    "GpuProcess",
    "Grade",
    "JsonLines",
    "Measurement",
    "Memory",
    "Peaks",
    "Recording",
    "Region",
    "Stat",
    "Stats",
    "TensorBoard",
    "VramError",
    "__version__",
    "add_sink",
    "callbacks",
    "cupy",
    "disable",
    "enable",
    "find_cycles",
    "is_enabled",
    "is_recording",
    "jax",
    "log",
    "memory",
    "monitor",
    "peaks",
    "program",
    "record",
    "remove_sink",
    "scope",
    "stats",
    "step",
    "tensorflow",
]


def __getattr__(name: str) -> str:
    if name == "__version__":  # asked of the installer's records only when somebody wants to know
        return version()
    raise AttributeError(f"module 'vram' has no attribute '{name}'")

"""vram: a GPU-memory toolkit for deep learning.

``vram.enable()`` makes PyTorch allocate from vram's pool, ``vram.cupy.enable()`` CuPy. ``vram.record()`` records GPU memory
events; ``vram.scope()`` and ``vram.step()`` add what the program was doing. ``vram.monitor`` measures regions,
``vram.memory()`` lists the users of the GPUs, and ``vram.Cleaner`` frees memory when it pays. ``vram.micro_batches()``,
``vram.retry_on_oom`` and ``vram.find_batch_size()`` adapt a program to the available memory. The program ``vram``, which
is part of this package, explains recordings; ``python -m vram`` runs it too.
"""

from vram import callbacks, cupy, jax, tensorflow
from vram._error import VramError
from vram._installed import program, version
from vram._stats import Stat, Stats, stats
from vram.clean import Cleaned, Cleaner, Cleaning, Cycle, Grade, find_cycles
from vram.monitoring import (
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
from vram.recover import BatchSize, MicroBatches, Trial, find_batch_size, micro_batches, retry_on_oom
from vram.torch import Enabled, disable, enable, is_enabled
from vram.watching import Watch, watch

__all__ = [
    "BatchSize",
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
    "MicroBatches",
    "Peaks",
    "Recording",
    "Region",
    "Stat",
    "Stats",
    "TensorBoard",
    "Trial",
    "VramError",
    "Watch",
    "__version__",
    "add_sink",
    "callbacks",
    "cupy",
    "disable",
    "enable",
    "find_batch_size",
    "find_cycles",
    "is_enabled",
    "is_recording",
    "jax",
    "log",
    "memory",
    "micro_batches",
    "monitor",
    "peaks",
    "program",
    "record",
    "remove_sink",
    "retry_on_oom",
    "scope",
    "stats",
    "step",
    "tensorflow",
    "watch",
]


def __getattr__(name: str) -> str:
    if name == "__version__":  # asked of the installer's records only when somebody wants to know
        return version()
    raise AttributeError(f"module 'vram' has no attribute '{name}'")

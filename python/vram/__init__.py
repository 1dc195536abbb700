"""vram: the GPU-memory toolkit for deep learning.

- ``vram.enable()`` uses vram's pool under PyTorch, ``vram.cupy.enable()`` under CuPy.
- ``vram.record()`` records allocations and frees of GPU memory; ``vram.scope()`` and ``vram.step()`` mark what the
  program is doing. The program ``vram``, which comes with this package, explains recordings (also ``python -m vram``).
- ``vram.load()`` reads a recording: its report as Python values, and tables for pandas and Arrow.
- ``vram.monitor`` measures functions and blocks; ``vram.memory()`` lists the GPUs and the processes that use them;
  ``vram.summary()`` says how PyTorch's allocator manages the memory of this process.
- ``vram.Cleaner`` frees memory when that is worthwhile; ``vram.find_cycles()`` finds reference cycles with tensors,
  ``vram.why_alive()`` what keeps a tensor alive.
- ``vram.dry_run()`` predicts the memory of a training step without a GPU, ``vram.predict()`` also that of changes to it.
- ``vram.checkpoint()`` lets a model run parts again in backward, so that a step fits into a budget.
- ``vram.micro_batches()``, ``vram.retry_on_oom`` and ``vram.find_batch_size()`` adapt batches to the available memory.
"""

from vram import callbacks, cupy, jax, keras, tensorflow
from vram._error import VramError
from vram._installed import program
from vram._installed import version as _version
from vram._public import publish as _publish
from vram._stats import Stat, Stats, stats
from vram.clean import AlivePath, Cleaned, Cleaner, Cleaning, Cycle, Grade, WhyAlive, find_cycles, why_alive
from vram.dry import DryRun, DryRunContribution, DryRunFits, DryRunPeak, WhatIf, WhatIfs, dry_run, predict
from vram.monitoring import (
    AllocatorSummary,
    Board,
    DeviceUse,
    Gpu,
    GpuProcess,
    JsonLines,
    Measurement,
    Memory,
    Monitor,
    Peaks,
    Region,
    StreamSummary,
    TensorBoard,
    add_sink,
    log,
    memory,
    monitor,
    peaks,
    remove_sink,
    summary,
)
from vram.notebook import load_ipython_extension as load_ipython_extension
from vram.notebook import unload_ipython_extension as unload_ipython_extension
from vram.planning import Checkpointed, CheckpointPlan, CheckpointRegion, CheckpointTrial, checkpoint, plan_checkpoints
from vram.recording import FlightRecorder, Recording, Scope, flight_recorder, is_recording, record, scope, step
from vram.recording import start_from_environment as _start_flight_recorder
from vram.recover import BatchSize, MicroBatches, Trial, find_batch_size, micro_batches, retry_on_oom
from vram.reports import DeviceReport, Finding, Holder, Report, ReportPeak, ReportStep, ReportTable, ReportView, load
from vram.torch import Enabled, disable, enable, is_enabled
from vram.watching import Watch, watch

__all__ = [
    "AlivePath",
    "AllocatorSummary",
    "BatchSize",
    "Board",
    "CheckpointPlan",
    "CheckpointRegion",
    "CheckpointTrial",
    "Checkpointed",
    "Cleaned",
    "Cleaner",
    "Cleaning",
    "Cycle",
    "DeviceReport",
    "DeviceUse",
    "DryRun",
    "DryRunContribution",
    "DryRunFits",
    "DryRunPeak",
    "Enabled",
    "Finding",
    "FlightRecorder",
    "Gpu",
    "GpuProcess",
    "Grade",
    "Holder",
    "JsonLines",
    "Measurement",
    "Memory",
    "MicroBatches",
    "Monitor",
    "Peaks",
    "Recording",
    "Region",
    "Report",
    "ReportPeak",
    "ReportStep",
    "ReportTable",
    "ReportView",
    "Scope",
    "Stat",
    "Stats",
    "StreamSummary",
    "TensorBoard",
    "Trial",
    "VramError",
    "Watch",
    "WhatIf",
    "WhatIfs",
    "WhyAlive",
    "__version__",
    "add_sink",
    "callbacks",
    "checkpoint",
    "cupy",
    "disable",
    "dry_run",
    "enable",
    "find_batch_size",
    "find_cycles",
    "flight_recorder",
    "is_enabled",
    "is_recording",
    "jax",
    "keras",
    "load",
    "log",
    "memory",
    "micro_batches",
    "monitor",
    "peaks",
    "plan_checkpoints",
    "predict",
    "program",
    "record",
    "remove_sink",
    "retry_on_oom",
    "scope",
    "stats",
    "step",
    "summary",
    "tensorflow",
    "watch",
    "why_alive",
]
_publish(globals())
_start_flight_recorder()


def __getattr__(name: str) -> str:
    if name == "__version__":  # read from the installed metadata only when it is used
        return _version()
    raise AttributeError(f"module 'vram' has no attribute '{name}'")

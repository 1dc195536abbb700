"""Measuring: functions and blocks (``vram.monitor``), sinks, and the GPUs of the machine (``vram.memory``).

Imports no framework, and loads a library only when a function needs it.
"""

from __future__ import annotations

from vram.monitoring._board import Board
from vram.monitoring._json_lines import JsonLines
from vram.monitoring._measurement import DeviceUse, Measurement
from vram.monitoring._memory import Gpu, GpuProcess, Memory, memory
from vram.monitoring._monitor import Monitor, monitor
from vram.monitoring._peaks import Peaks, peaks
from vram.monitoring._region import Region
from vram.monitoring._sinks import Sink, TensorBoard, add_sink, log, remove_sink
from vram.monitoring._summary import AllocatorSummary, StreamSummary, summary

__all__ = [
    "AllocatorSummary",
    "Board",
    "DeviceUse",
    "Gpu",
    "GpuProcess",
    "JsonLines",
    "Measurement",
    "Memory",
    "Monitor",
    "Peaks",
    "Region",
    "Sink",
    "StreamSummary",
    "TensorBoard",
    "add_sink",
    "log",
    "memory",
    "monitor",
    "peaks",
    "remove_sink",
    "summary",
]

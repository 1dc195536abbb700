"""Look: what regions of the program cost (``vram.monitor``), and who is told (sinks). Imports no framework."""

from __future__ import annotations

from vram.look._json_lines import JsonLines
from vram.look._measurement import DeviceUse, Measurement
from vram.look._monitor import Monitor, monitor
from vram.look._peaks import Peaks, peaks
from vram.look._region import Region
from vram.look._sinks import Sink, TensorBoard, add_sink, log, remove_sink

__all__ = [
    "DeviceUse",
    "JsonLines",
    "Measurement",
    "Monitor",
    "Peaks",
    "Region",
    "Sink",
    "TensorBoard",
    "add_sink",
    "log",
    "monitor",
    "peaks",
    "remove_sink",
]

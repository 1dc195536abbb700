"""Recording from inside the process: ``vram.record()``, ``vram.scope()``, ``vram.step()``. See docs/record.md.

The recorder is in the C library (vram/record.h). This package contains its Python interface, the file names of ranks,
and the tap under PyTorch's own allocator.
"""

from vram.recording._empty import nothing_recorded
from vram.recording._flight import FlightRecorder, flight_recorder, start_from_environment
from vram.recording._flight import attach as attach_flight_recorder
from vram.recording._named import Scope, scope, step
from vram.recording._record import (
    Recording,
    file_of_program,
    finish_recording,
    is_recording,
    record,
    record_from_environment,
)

__all__ = [
    "FlightRecorder",
    "Recording",
    "Scope",
    "attach_flight_recorder",
    "file_of_program",
    "finish_recording",
    "flight_recorder",
    "is_recording",
    "nothing_recorded",
    "record",
    "record_from_environment",
    "scope",
    "start_from_environment",
    "step",
]

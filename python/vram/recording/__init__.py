"""Recording from inside the process: ``vram.record()``, ``vram.scope()``, ``vram.step()``. See docs/record.md.

The recorder is in the C library (vram/record.h); here are its doors, the names of ranks' files, and the tap under
PyTorch's own allocator.
"""

from vram.recording._named import scope, step
from vram.recording._record import Recording, finish_recording, is_recording, record, record_from_environment

__all__ = ["Recording", "finish_recording", "is_recording", "record", "record_from_environment", "scope", "step"]

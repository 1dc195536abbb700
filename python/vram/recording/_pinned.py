"""Pinned host memory of PyTorch's allocator in recordings: figures, read at steps."""

from __future__ import annotations

import sys
import time
from typing import Any

from vram import _marks
from vram._library import library

_NO_DEVICE = -1
# For reading, the allocator locks each of its 64 lists and adds up their figures.
_MAX_SHARE_OF_TIME = 0.001


class _State:
    recording = -1  # the last one of which the figures were read
    next_ns = 0


def record() -> None:
    """Record how much pinned host memory the allocator has, and how much of it is in use; nothing where that is unknown or nothing is recorded.

    Reading takes at most a thousandth of the program's time: in steps of a few milliseconds, it is not done at each.
    """
    began_ns = time.perf_counter_ns()
    if _State.recording == _marks.recordings() and began_ns < _State.next_ns:
        return
    if not _marks.is_recording():
        return
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    read = getattr(cuda, "host_memory_stats_as_nested_dict", None)  # from PyTorch 2.8 on
    if cuda is None or read is None or not cuda.is_initialized():
        return
    stats = read()
    ended_ns = time.perf_counter_ns()
    _State.recording, _State.next_ns = _marks.recordings(), ended_ns + int((ended_ns - began_ns) / _MAX_SHARE_OF_TIME)
    for name, figure in (("allocated_bytes", b"host.pinned_bytes"), ("active_bytes", b"host.pinned_active_bytes")):
        value = stats.get(name, {}).get("current")
        if value is None:
            return
        library().vram_record_figure(_NO_DEVICE, figure, value)

"""Pinned host memory of PyTorch's allocator in recordings: figures, read at steps."""

from __future__ import annotations

import sys
from typing import Any

from vram._library import library

_NO_DEVICE = -1


def record() -> None:
    """Record how much pinned host memory the allocator has, and how much of it is in use; nothing where that is unknown."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    read = getattr(cuda, "host_memory_stats_as_nested_dict", None)  # from PyTorch 2.8 on
    if cuda is None or read is None or not cuda.is_initialized():
        return
    stats = read()
    for name, figure in (("allocated_bytes", b"host.pinned_bytes"), ("active_bytes", b"host.pinned_active_bytes")):
        value = stats.get(name, {}).get("current")
        if value is None:
            return
        library().vram_record_figure(_NO_DEVICE, figure, value)

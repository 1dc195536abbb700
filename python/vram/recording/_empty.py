"""What to say of a recording without events: why the program used no GPU memory, and what to do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from vram._texts import tr


def nothing_recorded() -> str:
    """Return the sentence for a program that used no GPU memory while it was recorded."""
    return tr(
        "nothing was recorded: the program used no GPU memory ({}); `vram demo` shows a report on any machine"
    ).format(_reason())


def _reason() -> str:
    torch = sys.modules.get("torch")
    if not _has_gpu():
        return tr("this machine, or its container, has no GPU: `vram doctor` says why")
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return tr("CUDA_VISIBLE_DEVICES hides all GPUs")
    version = getattr(torch, "version", None)
    if torch is not None and not getattr(version, "cuda", None) and not getattr(version, "hip", None):
        return tr("this PyTorch is built for CPUs")
    return tr('its tensors stayed on the CPU: move model and data to the GPU, for example with .to("cuda")')


def _has_gpu() -> bool:
    return any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/nvhost-gpu"))

"""The threads that a program starts: loaders that copy batches to the GPU, and files that are read in parallel.

PyTorch's modes belong to the thread that entered them. A thread that is started during a dry run enters them, too, and one operator runs at a time.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from vram.dry._mode import DryMode
from vram.dry._patches import Patches


def put_in_place(patches: Patches, mode: DryMode) -> None:
    """Let the threads that start from now on be part of the dry run."""
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def followed(thread: Any) -> None:
        with torch.autograd.set_multithreading_enabled(False), mode.fakes, mode:
            start(thread)

    patches.put(threading.Thread, "_bootstrap_inner", followed)

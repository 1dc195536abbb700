"""Whether gc.freeze() may hide a CUDA graph from gc.get_objects()."""

from __future__ import annotations

import gc
import sys


def _count_without_graphs() -> int:
    """The number of frozen objects that can't be CUDA graphs: no graph exists before the program initializes CUDA.

    CPython 3.12 and later have a few hundred frozen objects from the start.
    """
    cuda = getattr(sys.modules.get("torch"), "cuda", None)  # none while PyTorch is being imported
    is_initialized = getattr(cuda, "is_initialized", bool)
    return 0 if is_initialized() else gc.get_freeze_count()


_WITHOUT_GRAPHS = _count_without_graphs()


def may_hide_graphs() -> bool:
    """Return whether objects were frozen after CUDA could be in use, or after this module was imported."""
    return gc.get_freeze_count() > _WITHOUT_GRAPHS

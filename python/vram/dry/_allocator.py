"""How an allocator is stated: NAME:key=value,key:value, as ``vram replay --allocator`` and PyTorch's variables have it."""

from __future__ import annotations

import os
import re

_BETWEEN_SETTINGS = re.compile(r",(?![^\[]*\])")  # a comma that is in no list
_TRUE = ("True", "true", "1")  # as the replay reads it
# Settings of PyTorch that change nothing of what its allocator takes from the GPU, and that replays do not have.
_WITHOUT_EFFECT = re.compile(r"\s*(pinned_\w+|release_lock_on_\w+|graph_capture_record_stream_reuse|backend)\s*[:=]")
_ASYNC = re.compile(r"backend\s*:\s*cudaMallocAsync")


def from_environment() -> str:
    """Return the allocator that PyTorch's variables state."""
    stated = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    if _ASYNC.search(stated):
        return "cuda_async"
    kept = [each for each in _BETWEEN_SETTINGS.split(stated) if each.strip() and not _WITHOUT_EFFECT.match(each)]
    return f"torch:{','.join(kept)}" if kept else "torch"


def is_torch(allocator: str) -> bool:
    """Whether it is PyTorch's caching allocator."""
    return allocator.partition(":")[0].strip() == "torch"


def settings_of(allocator: str) -> dict[str, str]:
    """Return the settings; of several values of one, the last."""
    found = {}
    for each in _BETWEEN_SETTINGS.split(allocator.partition(":")[2]):
        name, _, value = each.partition(min((mark for mark in "=:" if mark in each), key=each.index, default="="))
        found[name.strip()] = value.strip()
    return found


def expands(allocator: str) -> bool:
    """Whether it is PyTorch's with expandable segments."""
    return is_torch(allocator) and settings_of(allocator).get("expandable_segments") in _TRUE

"""How much a process's memory outside of PyTorch's allocator grows during something: figures of a recording.

The driver's count of used memory before and after, less what the allocator took meanwhile. Other processes that take memory at
that moment are counted too, so only short and rare things are measured.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

from vram._library import library

# Libraries take most of their memory at the first calls of each kind.
MEASURED_CALLS = 2


class _State:
    lock = threading.Lock()
    calls: ClassVar[Counter[tuple[str, bytes, int]]] = Counter()
    grown: ClassVar[Counter[tuple[str, int]]] = Counter()


def reset() -> None:
    """Begin a recording: what was measured before is not a part of it."""
    with _State.lock:
        _State.calls.clear()
        _State.grown.clear()


@contextlib.contextmanager
def measured(name: str, kind: bytes, device: Any) -> Iterator[bool]:
    """Record by how much memory grows inside, in the first calls of this kind. Gives whether this call is measured.

    Args:
        name: What the memory is for; calls of one name are added up.
        kind: Of the call.
        device: A torch.device; one that is not a CUDA device, or None, is not measured.
    """
    if device is None or device.type != "cuda" or not _is_due((name, kind, device.index)):
        yield False
        return
    before = outside_bytes(device.index)
    yield True
    add(name, device.index, before)


def _is_due(call: tuple[str, bytes, int]) -> bool:
    with _State.lock:
        _State.calls[call] += 1
        return _State.calls[call] <= MEASURED_CALLS


def outside_bytes(device: int) -> int | None:
    """Return the used bytes of a device that PyTorch's allocator does not have; None during a capture of a CUDA graph.

    None also if CUDA fails: the program learns of that by its own calls.
    """
    torch: Any = sys.modules["torch"]
    try:
        if torch.cuda.is_current_stream_capturing():
            return None
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free - torch.cuda.memory_reserved(device))
    except RuntimeError:
        return None


def add(name: str, device: int, before: int | None) -> None:
    """Record the growth since `before`, a result of outside_bytes()."""
    after = None if before is None else outside_bytes(device)
    if before is None or after is None or after <= before:
        return
    with _State.lock:
        _State.grown[name, device] += after - before
        grown = _State.grown[name, device]
    library().vram_record_figure(device, f"growth.{name}".encode(errors="replace"), grown)

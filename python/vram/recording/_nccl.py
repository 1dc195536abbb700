"""What NCCL itself says of a communicator's memory on the GPU, from NCCL 2.29.7 on: figures of a recording."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from vram._library import library

# ncclCommMemStat_t: what can be suspended, whether it is, what cannot, and the sum, which is the largest.
_STATISTICS = range(4)


@cache
def _function() -> Any:
    """Return ncclCommMemStats of the NCCL that the program has loaded; None: it has none, or an older one."""
    try:
        loaded = ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        function = loaded.ncclCommMemStats
    except (OSError, AttributeError):
        return None
    function.restype, function.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]
    return function


def _communicator(group: Any, device: Any) -> int:
    """Return the address of the group's communicator; 0 if PyTorch has none, or does not tell."""
    try:
        pointer_of = getattr(group._get_backend(device), "_comm_ptr", None)
        return 0 if pointer_of is None else int(pointer_of())
    except RuntimeError:
        return 0


def record(name: str, group: Any, device: Any) -> None:
    """Record the memory of a group's communicator on a device; nothing where it is unknown.

    Args:
        name: Of the group.
        group: A ProcessGroup with NCCL.
        device: A torch.device.
    """
    function = _function()
    pointer = _communicator(group, device) if function is not None else 0
    if function is None or not pointer:
        return
    value, total = ctypes.c_uint64(), 0
    for statistic in _STATISTICS:
        if function(pointer, statistic, ctypes.byref(value)) != 0:
            return
        total = max(total, value.value)
    library().vram_record_figure(device.index, f"nccl.{name}".encode(errors="replace"), total)

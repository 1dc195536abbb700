"""Marks of torch.distributed's collectives in recordings: their names, bytes and groups.

All of them pass PyTorch's dispatcher: those of ``torch.distributed``, of DistributedDataParallel's C++ code, of FSDP, and
functional collectives. While a recording runs, each of its operators has a function of vram's before its own. That function calls
the operator, and marks the call when it has returned. Other operators are not touched, and nothing is imported.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from vram._library import library, sized
from vram._prototypes import MARK_COLLECTIVE, Mark
from vram.recording import _growth, _nccl

# PyTorch's names in Python, by those of the operators.
_NAMES = {
    "_allgather_base_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "barrier": "barrier",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "recv_": "recv",
    "recv_any_source_": "recv",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
    "scatter_": "scatter",
    "send": "send",
}
# Runs before the kernels of every device, also within torch.inference_mode() and below autograd.
_KEY = "BackendSelect"


class _State:
    lock = threading.Lock()
    registered: Any = None  # a torch.library.Library


def start() -> None:
    """Mark collectives from now on, if the program has imported a PyTorch with torch.distributed. Calling it again has no effect."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(getattr(torch, "_C", None), "_distributed_c10d"):
        return
    with _State.lock:
        if _State.registered is not None:
            return
        _State.registered = _register(torch)


def stop() -> None:
    """End what start() began. Calling it again has no effect."""
    with _State.lock:
        if _State.registered is not None:
            _State.registered._destroy()
            _State.registered = None


def _register(torch: Any) -> Any:
    """Return the torch.library.Library with vram's functions. An operator where the program has a function of its own keeps that."""
    present = set(torch._C._dispatch_get_all_op_names())
    after = torch._C._dispatch_keyset_full_after(getattr(torch._C.DispatchKey, _KEY))
    registered = torch.library.Library("c10d", "IMPL")
    for operator, name in _NAMES.items():
        qualified = f"c10d::{operator}"
        if qualified in present and not torch._C._dispatch_has_kernel_for_dispatch_key(qualified, _KEY):
            function = _marked(getattr(torch.ops.c10d, operator).default, after, name.encode(), torch)
            registered.impl(operator, function, _KEY, with_keyset=True)
    return registered


def _marked(operator: Any, after: Any, name: bytes, torch: Any) -> Callable[..., Any]:
    groups = _Groups(torch)
    tensor_type = torch.Tensor

    def call(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        began_ns = time.perf_counter_ns()
        group, process_group, is_nccl = groups.of(args)
        device = next((tensor.device for tensor in _tensors(args, tensor_type)), None)
        measured = device if is_nccl else None
        with _growth.measured(f"NCCL, group {group.decode()}", name, measured) as is_measured:
            result = operator.redispatch(keyset & after, *args, **kwargs)
        if is_measured:
            _nccl.record(group.decode(), process_group, device)
        size = max(sum(_bytes_of(tensor) for tensor in _tensors([arg], tensor_type)) for arg in args)
        mark = sized(
            Mark,
            kind=MARK_COLLECTIVE,
            device=device.index if device is not None and device.type == "cuda" else -1,
            size_bytes=size if name != b"barrier" else 0,
            duration_ns=time.perf_counter_ns() - began_ns,
            name=name,
            group=group,
        )
        library().vram_record_mark(ctypes.byref(mark))
        return result

    return call


def _tensors(values: Any, tensor_type: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tensor_type):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value, tensor_type)


def _bytes_of(tensor: Any) -> int:
    """Return what the tensor has in memory; 0 if its kind does not tell. A sparse tensor has indices and values."""
    try:
        if tensor.is_sparse:
            return int(tensor._indices().nbytes + tensor._values().nbytes)
        return int(tensor.nbytes)
    except (RuntimeError, NotImplementedError):
        return 0


class _Groups:
    """The names and backends of groups of processes, from the arguments of their operators."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def of(self, args: Any) -> tuple[bytes, Any, bool]:
        """Return the group's name, the group, and whether it uses NCCL."""
        for arg in args:
            if isinstance(arg, self._torch.ScriptObject) and "ProcessGroup" in str(arg._type()):
                group = self._torch._C._distributed_c10d.ProcessGroup.unbox(arg)
                described = getattr(group, "group_desc", "")
                name = group.group_name if described in ("", "undefined") else described
                return str(name).encode(errors="replace"), group, "nccl" in str(group.name()).lower()
        return b"", None, False

"""Records what each call of an operator allocates on the GPU: PyTorch's counters around it, and the allocator's own log.

All counters are kept on the host, so nothing waits for the GPU. The log is the memory history, in which an allocation of an odd
size marks where each call begins and ends.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHORT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "b8",
    torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip
# Sizes of the allocations that mark the begin and the end of a call in the log; no tensor of the programs has them.
START, BEGIN, END = 499, 509, 503


def describe(value: Any) -> Any:
    """Returns what rules need of an argument: a tensor becomes {"t": dtype, "s": shape, "st": stride unless contiguous, "d": cpu}."""
    if isinstance(value, torch.Tensor):
        found: dict[str, Any] = {"t": SHORT.get(value.dtype, str(value.dtype)), "s": [*value.shape]}
        if value.layout is torch.strided and not value.is_contiguous():
            found["st"] = [*value.stride()]
        if value.device.type != "cuda":
            found["d"] = value.device.type
        return found
    if isinstance(value, (torch.UntypedStorage, torch.TypedStorage)):
        # As a string it would list its bytes, each read from the GPU: recurrent layers make a tensor of their weights' storage.
        return f"storage of {value.nbytes()} bytes"
    if isinstance(value, (list, tuple)):
        return [describe(part) for part in value]
    if isinstance(value, dict):
        return {key: describe(part) for key, part in value.items()}
    return value if isinstance(value, (bool, int, float, str)) or value is None else str(value)


def storages(values: Any) -> dict[int, int]:
    """Returns the bytes of the storages of all tensors in `values`, by address."""
    found = {}
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            storage = value.untyped_storage()
            if storage.nbytes():
                found[storage.data_ptr()] = storage.nbytes()
    return found


def counters() -> tuple[int, int, int, int]:
    """Returns current and peak requested bytes, then current and peak allocated bytes."""
    if not torch.cuda.is_available():
        return 0, 0, 0, 0
    found = torch._C._cuda_memoryStats(torch.cuda.current_device())
    requested, allocated = found["requested_bytes"]["all"], found["allocated_bytes"]["all"]
    return requested["current"], requested["peak"], allocated["current"], allocated["peak"]


class Journal(TorchDispatchMode):
    """Notes each operator call of the block; `rows()` returns them after the block has ended."""

    def __init__(self, entries: int = 2_000_000) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []
        self._entries = entries
        self._log: list[dict[str, Any]] = []
        self._made: list[set[int]] = []
        self._on = torch.cuda.is_available()

    def _mark(self, size: int) -> None:
        if self._on:
            stream = torch.cuda.current_stream().cuda_stream
            torch._C._cuda_cudaCachingAllocator_raw_delete(torch._C._cuda_cudaCachingAllocator_raw_alloc(size, stream))

    def __enter__(self) -> Journal:
        if self._on:
            torch.cuda.memory._record_memory_history("all", context=None, stacks="python", max_entries=self._entries)
            self._mark(START)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._on:
            self._log = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
            torch.cuda.memory._record_memory_history(None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = {"op": str(func), "args": describe(args)} | ({"kwargs": describe(kwargs)} if kwargs else {})
        inputs = storages((args, kwargs))
        self._mark(BEGIN)
        if self._on:
            torch.cuda.reset_peak_memory_stats()
        before = counters()
        try:
            outputs = func(*args, **kwargs)
        except Exception as error:
            self._mark(END)
            self.calls.append(call | {"error": f"{type(error).__name__}: {error}"[:200]})
            self._made.append(set())
            raise
        after = counters()
        self._mark(END)
        made = {address: size for address, size in storages(outputs).items() if address not in inputs}
        call |= {
            "out": describe(outputs),
            "out_bytes": sum(made.values()),
            "peak": after[1] - before[0],
            "left": after[0] - before[0] - sum(made.values()),
            "peak_allocated": after[3] - before[2],
            "left_allocated": after[2] - before[2],
        }
        if self._on and (stream := torch.cuda.current_stream().cuda_stream):
            call["stream"] = stream
        if threading.current_thread() is not threading.main_thread():
            call["thread"] = "backward"
        self.calls.append(call)
        self._made.append({*made})
        return outputs

    def rows(self) -> list[dict[str, Any]]:
        """Returns the calls with `events`: each allocation (+bytes, as a list with "out" if it became an output) and free (-bytes)."""
        index, inside = -1, False
        # An older history may precede the mark.
        starts = [i for i, entry in enumerate(self._log) if entry["size"] == START]
        for entry in self._log[starts[-1] + 1 if starts else 0 :]:
            action, size = entry["action"], entry["size"]
            if action not in ("alloc", "free_completed"):
                continue
            if size in (BEGIN, END):
                inside = size == BEGIN
                index += action == "alloc" and inside
            elif inside and index < len(self.calls):
                is_output = action == "alloc" and entry["addr"] in self._made[index]
                event = [size, "out"] if is_output else size if action == "alloc" else -size
                self.calls[index].setdefault("events", []).append(event)
        return self.calls

"""The figures of memory that a program finds in torch.cuda and torch.accelerator during a dry run."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from vram._sizes import format_size
from vram._texts import columns_of, tr
from vram.dry._gpu import Gpu
from vram.dry._placement import Counter
from vram.dry._tape import Tape
from vram.dry._values import unknown_here

# What torch.cuda.memory_stats() has, by name and pool; and by name alone.
_OF_POOLS = (
    *("allocation", "segment", "active", "inactive_split"),
    *("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"),
)
_OF_ALL = ("oversize_allocations", "oversize_segments")
_POOLS = ("all", "large_pool", "small_pool")
_PARTS = ("current", "peak", "allocated", "freed")
_COUNTS = ("num_sync_all_streams", "num_device_alloc", "num_device_free", "max_split_size")


def nothing(*_arguments: Any, **_named: Any) -> int:
    return 0


class Figures:
    """The figures of the GPUs of a dry run.

    Args:
        gpu: What they are.
        tape: Where their memory is counted.
        context_bytes: What each has besides PyTorch's allocator.
        index: Returns the number of a device, as programs name it.
    """

    def __init__(self, gpu: Gpu, tape: Tape, context_bytes: int, index: Callable[[Any], int]) -> None:
        self._gpu, self._tape, self._context_bytes, self._index = gpu, tape, context_bytes, index

    def _counters(self, device: Any) -> dict[str, Counter]:
        placement = self._tape.placement(self._index(device))
        return {"requested": placement.requested, "allocated": placement.allocated, "reserved": placement.reserved}

    def _now(self, kind: str) -> Callable[..., int]:
        return lambda device=None: self._counters(device)[kind].now

    def _peak(self, kind: str) -> Callable[..., int]:
        return lambda device=None: self._counters(device)[kind].peak

    def _reset(self, device: Any = None) -> None:
        for counter in self._counters(device).values():
            counter.peak = counter.now

    def _info(self, device: Any = None) -> tuple[int, int]:
        free_bytes = self._gpu.total_bytes - self._context_bytes - self._counters(device)["reserved"].now
        return max(0, free_bytes), self._gpu.total_bytes

    def _stats(self, device: Any = None) -> OrderedDict[str, Any]:
        """Return what PyTorch's allocator counts; a dry run does not count all of it, and prints the rest as unknown."""
        names = [*map(".".join, itertools.product(_OF_POOLS, _POOLS, _PARTS)), *_COUNTS]
        names += map(".".join, itertools.product(_OF_ALL, _PARTS))
        found: dict[str, Any] = dict.fromkeys(names, unknown_here())
        counters = self._counters(device)
        for kind, counter in {**counters, "active": counters["allocated"]}.items():
            found[f"{kind}_bytes.all.current"], found[f"{kind}_bytes.all.peak"] = counter.now, counter.peak
        placement = self._tape.placement(self._index(device))
        found["num_alloc_retries"], found["num_ooms"] = placement.retries, placement.ooms
        return OrderedDict(sorted(found.items()))

    def _nested_stats(self, device: Any = None) -> dict[str, Any]:
        nested: dict[str, Any] = {}
        for name, value in self._stats(device).items():
            *groups, last = name.split(".")
            inner = nested
            for group in groups:
                inner = inner.setdefault(group, {})
            inner[last] = value
        return nested

    def _summary(self, device: Any = None, abbreviated: bool = False) -> str:  # noqa: ARG002
        rows = [(tr("memory of a dry run, device {}").format(self._index(device)), tr("now"), tr("peak"))]
        counters = self._counters(device)
        for name, kind in (
            (tr("allocated"), "allocated"),
            (tr("requested"), "requested"),
            (tr("reserved"), "reserved"),
        ):
            rows.append((name, format_size(counters[kind].now), format_size(counters[kind].peak)))
        widths = [max(map(columns_of, column)) for column in zip(*rows)]
        lines = ["  ".join(text + " " * (width - columns_of(text)) for text, width in zip(row, widths)) for row in rows]
        return "\n".join(map(str.rstrip, lines)) + "\n"

    def _set_fraction(self, fraction: float, device: Any = None) -> None:
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._tape.placement(self._index(device)).limit_bytes = int(fraction * self._gpu.total_bytes)

    def _fraction(self, device: Any = None) -> float:
        limit = self._tape.placement(self._index(device)).limit_bytes
        return 1.0 if limit is None else limit / self._gpu.total_bytes

    @property
    def of_accelerator(self) -> dict[str, Any]:
        """The functions of torch.accelerator."""
        return {
            "memory_allocated": self._now("allocated"),
            "memory_reserved": self._now("reserved"),
            "max_memory_allocated": self._peak("allocated"),
            "max_memory_reserved": self._peak("reserved"),
            "reset_peak_memory_stats": self._reset,
            "reset_accumulated_memory_stats": nothing,
            "memory_stats": self._stats,
            "get_memory_info": self._info,
            "empty_cache": self._tape.empty_cache,
            "empty_host_cache": nothing,
        }

    @property
    def of_cuda(self) -> dict[str, Any]:
        """The functions of torch.cuda."""
        return {
            **self.of_accelerator,
            "memory_cached": self._now("reserved"),
            "max_memory_cached": self._peak("reserved"),
            "reset_max_memory_allocated": self._reset,
            "reset_max_memory_cached": self._reset,
            "mem_get_info": self._info,
            "memory_stats_as_nested_dict": self._nested_stats,
            "memory_snapshot": lambda *_arguments, **_named: [],
            "memory_summary": self._summary,
            "_record_memory_history": nothing,
            "_dump_snapshot": nothing,
            "set_per_process_memory_fraction": self._set_fraction,
            "get_per_process_memory_fraction": self._fraction,
            "reset_peak_host_memory_stats": nothing,
            "reset_accumulated_host_memory_stats": nothing,
            # What NVML would say of the GPU.
            **dict.fromkeys(("memory_usage", "temperature", "power_draw", "clock_rate"), nothing),
            "device_memory_used": lambda device=None: self._gpu.total_bytes - self._info(device)[0],
        }

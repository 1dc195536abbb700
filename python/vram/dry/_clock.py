"""The clock of a dry run: how long each operator would take on the pretended GPU.

    time = launch + max(operations / rate of the dtype, bytes read and written / bandwidth)

The rates are data (rates.json): peaks as published, and what share of them kernels are assumed to reach. This orders what is dear
and what is cheap; it does not predict the duration of a step, because kernels differ in how near they come to the peak rates. The
same program takes the same time in every run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from vram._texts import tr
from vram.dry._gpu import Gpu

_RATES = Path(__file__).resolve().parent / "rates.json"
_ASSUMED_GPU = "H200"
_ATEN = torch.ops.aten
_COLUMNS = {
    torch.float64: "fp64",
    torch.complex128: "fp64",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.int8: "int8",
    torch.uint8: "int8",
}
# They read as many rows as they write, not the whole table.
_GATHERING = frozenset({_ATEN.embedding, _ATEN.index_select, _ATEN.gather, _ATEN.index})


@cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_RATES.read_text())
    return data


@dataclass(frozen=True)
class Rates:
    """What a GPU is assumed to do in a second.

    `assumption` says so if they are another GPU's.
    """

    of_operations: Mapping[str, float]
    of_bytes: float
    launch_ns: float
    assumption: str = ""

    @classmethod
    def of(cls, gpu: Gpu) -> Rates:
        """Return the rates of a GPU. One without published rates has those of an H200, as one that is only a size in find_gpu()."""
        data = _data()
        known = gpu.name in data["gpus"]
        peak = data["gpus"][gpu.name if known else _ASSUMED_GPU]
        assumed = data["assumed"]
        columns = {name: rate for name, rate in peak.items() if name not in ("memory", "source")}
        return cls(
            {name: rate * 1e12 * assumed["compute"] for name, rate in columns.items()},
            peak["memory"] * 1e9 * assumed["memory"],
            assumed["launch_ns"],
            "" if known else tr("no rates of a {} are known; times are those of an {}").format(gpu.name, _ASSUMED_GPU),
        )

    def of_dtype(self, dtype: torch.dtype, *, allows_tf32: bool) -> float:
        """Return operations per second on operands of this type."""
        if dtype.is_floating_point and dtype.itemsize == 1:
            column = "fp8"
        else:
            column = _COLUMNS.get(dtype, "tf32" if allows_tf32 else "fp32")
        return self.of_operations.get(column, self.of_operations["fp32"])


def selective_ns() -> int:
    """Return what an operator costs the host in addition while torch's selective checkpointing follows it."""
    return int(_data()["host"]["selective_ns"])


class Clock:
    """Adds up the time of operators, one after the other, whatever their streams are."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._exact_ns = 0.0

    @property
    def now_ns(self) -> int:
        """What all operators until now have taken."""
        return round(self._exact_ns)

    def run(self, func: Any, args: Any, kwargs: Any, inputs: list[Any], outputs: tuple[Any, ...]) -> None:
        """Add the time of one operator; `inputs` are the tensors of its arguments."""
        packet = func._overloadpacket
        name = func._schema.name
        if func.is_view or name.startswith(("aten::empty", "aten::new_empty", "aten::_unsafe_view", "aten::lift")):
            return
        moved = 2 * sum(map(_bytes, outputs)) if packet in _GATHERING else sum(map(_bytes, (*inputs, *outputs)))
        seconds = moved / self._rates.of_bytes
        count = flop_registry.get(packet)
        if count is not None and inputs:
            rate = self._rates.of_dtype(inputs[0].dtype, allows_tf32=_allows_tf32(name))
            seconds = max(seconds, _operations(count, args, kwargs, outputs) / rate)
        self._exact_ns += self._rates.launch_ns + seconds * 1e9


def _operations(count: Callable[..., Any], args: Any, kwargs: Any, outputs: tuple[Any, ...]) -> float:
    """PyTorch's formulas expect what the operator returned, and fail for shapes that they do not know."""
    returned: Any = outputs[0] if len(outputs) == 1 else outputs
    if count is flop_registry[_ATEN.convolution_backward]:
        made = iter(outputs)
        returned = [next(made) if is_wanted else None for is_wanted in args[-1]]  # output_mask
    try:
        return float(count(*args, **kwargs, out_val=returned))
    except (AssertionError, ValueError, TypeError, IndexError, ZeroDivisionError):
        return 0.0


def _allows_tf32(name: str) -> bool:
    if "conv" in name:
        return bool(torch.backends.cudnn.allow_tf32)
    return bool(torch.backends.cuda.matmul.allow_tf32)


def _bytes(tensor: Any) -> int:
    """What of a tensor crosses the memory's bus: an expanded one is as large as its storage."""
    return int(min(tensor.numel() * tensor.dtype.itemsize, tensor.untyped_storage().nbytes()))

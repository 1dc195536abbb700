"""Each integer of a public function has a range, and what lies outside is a ValueError that names it: ctypes, PyTorch and
others take the lowest bits of numbers that their types cannot hold.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any
from unittest import mock

import pytest
import torch

import vram

assert torch  # recovery works with PyTorch, as far as a program has imported it

MAX = 2**63 - 1
DEVICE = (0, 2**31 - 1)

# Objects of these are created by functions, whose parameters are checked.
MADE_BY_FUNCTIONS = ("DeviceReport", "Monitor", "Region", "ReportView", "Watch")
# Each number has an answer.
COMPARISONS = {"CheckpointRegion.has.block", "CheckpointRegion.find.block"}


def _report() -> vram.Report:
    devices = [{"device": 0, "kind": "gpu", "holders": []}]
    native = mock.Mock()
    native.document.return_value = json.dumps({"devices": devices, "device": 0, "kind": "gpu"})
    return vram.Report(native, mock.Mock())


def _dry_run() -> vram.DryRun:
    run = vram.dry_run()
    run._finished = lambda: None  # type: ignore[method-assign]
    return run


def _board() -> vram.Board:
    board = object.__new__(vram.Board)
    board._read_ns = 0
    return board


def _micro_batches(**changes: Any) -> Any:
    model = torch.nn.Linear(1, 1)
    batch = torch.ones(4, 1)
    return vram.micro_batches(batch, lambda part: model(part).sum(), model=model, **changes)


def _halves(batch: Any, start: int, stop: int) -> Any:
    return batch[start:stop]


Call = Callable[[Any], Any]

INTEGERS: dict[str, tuple[int, int, Call]] = {
    "Board.step.duration_ns": (0, MAX, lambda value: _board().step(1, value)),
    "Board.step.number": (0, MAX, lambda value: _board().step(value, None)),
    "DeviceReport.holders.top": (1, MAX, lambda value: _report().device.holders(by="size", top=value)),
    "DeviceReport.state.top": (1, MAX, lambda value: _report().device.state(top=value)),
    "DryRun.what_if.lora_rank": (1, MAX, lambda value: _dry_run().what_if(lora_rank=value)),
    "DryRun.what_if.sizes": (1, MAX, lambda value: _dry_run().what_if(sizes=value)),
    "DryRun.what_if.world_size": (2, 2**31 - 1, lambda value: _dry_run().what_if(zero=1, world_size=value)),
    "DryRun.what_ifs.world_size": (2, 2**31 - 1, lambda value: _dry_run().what_ifs(world_size=value)),
    "DryRun.why.most": (0, MAX, lambda value: _dry_run().why(most=value)),
    "JsonLines.backups": (0, MAX, lambda value: vram.JsonLines("/nowhere/x", backups=value)),
    "Report.holders.top": (1, MAX, lambda value: _report().holders(by="size", top=value)),
    "Report.show.height": (1, MAX, lambda value: _report().show(height=value)),
    "Report.state.top": (1, MAX, lambda value: _report().state(top=value)),
    "Report.to_dict.top": (1, MAX, lambda value: _report().to_dict(top=value)),
    "callbacks.hugging_face.every": (1, MAX, lambda value: vram.callbacks.hugging_face(every=value)),
    "callbacks.keras.every": (1, MAX, lambda value: vram.callbacks.keras(every=value)),
    "callbacks.lightning.every": (1, MAX, lambda value: vram.callbacks.lightning(every=value)),
    "dry_run.world_size": (1, 2**31 - 1, lambda value: vram.dry_run(world_size=value)),
    "find_batch_size.device": (*DEVICE, lambda value: vram.find_batch_size(print, device=value)),
    "find_batch_size.max_batch_size": (1, MAX, lambda value: vram.find_batch_size(print, max_batch_size=value)),
    "find_batch_size.max_trials": (1, MAX, lambda value: vram.find_batch_size(print, max_trials=value)),
    "find_batch_size.multiple_of": (1, MAX, lambda value: vram.find_batch_size(print, multiple_of=value)),
    "find_batch_size.start": (1, MAX, lambda value: vram.find_batch_size(print, start=value)),
    "find_cycles.generation": (0, 2, lambda value: vram.find_cycles(generation=value)),
    "flight_recorder.max_files": (1, 2**32 - 1, lambda value: vram.flight_recorder("flights", max_files=value)),
    "flight_recorder.on_signal": (1, 64, lambda value: vram.flight_recorder("flights", on_signal=value)),
    "flight_recorder.steps": (1, MAX, lambda value: vram.flight_recorder("flights", steps=value)),
    "micro_batches.grow_after": (1, MAX, lambda value: _micro_batches(grow_after=value)),
    "micro_batches.samples": (1, MAX, lambda value: _micro_batches(samples=value, split=_halves)),
    "monitor.every": (1, MAX, lambda value: vram.monitor("region", every=value)),
    "peaks.device": (*DEVICE, lambda value: vram.peaks(value)),
    "predict.sizes": (1, MAX, lambda value: vram.predict(print, sizes=value)),
    "predict.steps": (1, MAX, lambda value: vram.predict(print, steps=value)),
    "predict.world_size": (1, 2**31 - 1, lambda value: vram.predict(print, world_size=value)),
    "retry_on_oom.max_attempts": (1, MAX, lambda value: vram.retry_on_oom(max_attempts=value)(print)),
    "retry_on_oom.min_size": (1, MAX, lambda value: vram.retry_on_oom(min_size=value)(print)),
    "retry_on_oom.multiple_of": (1, MAX, lambda value: vram.retry_on_oom(multiple_of=value)(print)),
    "stats.device": (*DEVICE, lambda value: vram.stats(value)),
    "summary.device": (*DEVICE, lambda value: vram.summary(value)),
    "tensorflow.callback.every": (0, MAX, lambda value: vram.tensorflow.callback(every=value)),
    "tensorflow.limit_memory.gpu": (*DEVICE, lambda value: vram.tensorflow.limit_memory("1GiB", gpu=value)),
    "tensorflow.memory_info.gpu": (*DEVICE, lambda value: vram.tensorflow.memory_info(value)),
    "watch.depth": (0, MAX, lambda value: vram.watch(torch.nn.Linear(1, 1), depth=value)),
    "why_alive.max_paths": (1, MAX, lambda value: vram.why_alive(_halves, max_paths=value)),
}

CHOICES: dict[str, Call] = {"DryRun.what_if.zero": lambda value: _dry_run().what_if(zero=value, world_size=2)}

# Bytes, or a text such as "20GiB".
SIZES: dict[str, Call] = {
    "Cleaner.min_bytes": lambda value: vram.Cleaner(min_bytes=value),
    "JsonLines.max_bytes": lambda value: vram.JsonLines("/nowhere/x", max_bytes=value),
    "Report.show.max_size": lambda value: _report().show(max_size=value),
    "Report.to_html.max_size": lambda value: _report().to_html(max_size=value),
    "checkpoint.budget": lambda value: vram.checkpoint(torch.nn.Linear(1, 1), (torch.ones(1, 1),), budget=value),
    "enable.device_limit": lambda value: vram.enable(value),
    "find_batch_size.budget": lambda value: vram.find_batch_size(print, budget=value),
    "flight_recorder.fragmentation": lambda value: vram.flight_recorder("flights", fragmentation=value),
    "flight_recorder.growth": lambda value: vram.flight_recorder("flights", growth=value),
    "flight_recorder.max_bytes": lambda value: vram.flight_recorder("flights", max_bytes=value),
    "keras.plan_remat.budget": lambda value: vram.keras.plan_remat(print, None, budget=value),
    "load.max_size": lambda value: vram.load("/nowhere/x", max_size=value),
    "plan_checkpoints.budget": lambda value: vram.plan_checkpoints(torch.nn.Linear(1, 1), (torch.ones(1, 1),), value),
    "record.limit": lambda value: vram.record("/nowhere/x", limit=value),
    "tensorflow.limit_memory.limit": lambda value: vram.tensorflow.limit_memory(value),
}


def _functions(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, FunctionType):
        yield name, thing
    if not isinstance(thing, type):
        return
    if not dataclasses.is_dataclass(thing) and name not in MADE_BY_FUNCTIONS and "__init__" in vars(thing):
        yield name, thing.__init__  # type: ignore[misc]
    for member, value in vars(thing).items():
        if isinstance(value, FunctionType) and not member.startswith("_"):
            yield f"{name}.{member}", value


def _integer_parameters() -> set[str]:
    found = set()
    modules = ("", "callbacks", "cupy", "jax", "keras", "tensorflow")
    for module in modules:
        namespace = getattr(vram, module) if module else vram
        for public in (name for name in namespace.__all__ if name != "__version__"):
            prefix = f"{module}." if module else ""
            for name, function in _functions(prefix + public, getattr(namespace, public)):
                for parameter in inspect.signature(function).parameters.values():
                    kinds = re.split(r"\s*\|\s*", str(parameter.annotation))
                    if "int" in kinds:
                        found.add(f"{name}.{parameter.name}")
    return found


def test_each_integer_of_a_public_function_is_here() -> None:
    assert _integer_parameters() - COMPARISONS == {*INTEGERS, *CHOICES, *SIZES}


@pytest.mark.parametrize("name", INTEGERS)
def test_what_is_out_of_the_range_is_refused_with_the_range(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VRAM_LIBRARY", "/nowhere/libvram.so")  # the check comes first
    minimum, maximum, call = INTEGERS[name]
    parameter = name.rpartition(".")[2]
    for value in (minimum - 1, -(2**32), -(2**64), maximum + 1, 2**64, 2**64 + minimum + 1):
        bound = minimum if value < minimum else maximum
        with pytest.raises(ValueError, match=rf"expected {parameter} to be .*\b{bound}\b.*, got {value}$"):
            call(value)
    for other in (1.5, "2"):
        with pytest.raises(TypeError, match=rf"expected {parameter} to be an integer, got {other!r}"):
            call(other)


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_no_choice_is_refused(name: str) -> None:
    parameter = name.rpartition(".")[2]
    for value in (0, -1, 2**32 + 1, 2**64 + 1):
        with pytest.raises(ValueError, match=f"expected {parameter} to be one of .*, got {value}"):
            CHOICES[name](value)


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_no_file_and_no_memory_can_have_is_refused(name: str) -> None:
    for value in (-1, -(2**64) + 2**30, 0):
        with pytest.raises(ValueError, match=r"is no size|more than 0 bytes|1 MiB is the least"):
            SIZES[name](value)
    for large in (2**63, 2**64 + 2**30, "9000000TiB"):
        with pytest.raises(ValueError, match="a size is less than 8 EiB"):
            SIZES[name](large)

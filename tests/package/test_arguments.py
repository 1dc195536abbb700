"""Bad arguments are ValueError or TypeError on every machine: also where there is no GPU, framework or library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vram

assert torch  # recovery works with PyTorch, as far as a program has imported it


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vram.enable("20"), "write the unit, as in 20GiB"),
        (lambda: vram.record(stacks="c"), "expected stacks to be one of None, 'python', 'native', got 'c'"),
        (lambda: vram.record(limit="much"), "'much' is no size"),
        (lambda: vram.Cleaner(max_time_fraction=0), "expected max_time_fraction to be a fraction"),
        (lambda: vram.Cleaner(end="gpu"), "expected end to be one of"),
        (lambda: vram.find_cycles(generation=3), "generation"),
        (lambda: vram.JsonLines("/nowhere/x", max_bytes="0"), "more than 0 bytes"),
        (lambda: vram.callbacks.lightning(every=0), "expected every to be at least 1, got 0"),
        (lambda: vram.callbacks.hugging_face(every=0), "expected every to be at least 1, got 0"),
        (lambda: vram.callbacks.keras(every=0), "expected every to be at least 1, got 0"),
        (lambda: vram.tensorflow.limit_memory("20"), "write the unit, as in 20GiB"),
        (lambda: vram.tensorflow.callback(every=-1), "expected every to be at least 0, got -1"),
        (lambda: vram.jax.memory_fraction(2), "expected fraction to be a fraction"),
        (lambda: vram.find_batch_size(print, budget="much"), "'much' is no size"),
        (lambda: vram.find_batch_size(print, max_trials=0), "expected max_trials to be at least 1, got 0"),
        (lambda: vram.remove_sink(print), "was not added as a sink"),
    ],
)
def test_values(call: Callable[[], Any], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=said):
        call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: vram.enable(1.5), "integer"),  # type: ignore[arg-type]
        (lambda: vram.Cleaner(min_bytes=None), "integer"),  # type: ignore[arg-type]
        (lambda: vram.monitor("x", every="2"), "expected every to be an integer, got '2'"),  # type: ignore[call-overload]
        (lambda: vram.TensorBoard(3), "found int"),
        (lambda: vram.watch(torch.nn.Linear), "got a type"),  # type: ignore[arg-type]
        (lambda: vram.scope(3), "takes the name of a region"),  # type: ignore[arg-type]
        (lambda: vram.micro_batches(torch.ones(2), sum), "pass model="),
    ],
)
def test_kinds(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call()

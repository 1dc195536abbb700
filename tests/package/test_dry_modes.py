"""Programs with dispatch modes of their own, which are between autograd's engine and a dry run's mode."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")


class Counting(TorchDispatchMode):
    """As programs write them to log operators."""

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Callable[[], Any]] = {
    "of the program": Counting,
    "operations": lambda: FlopCounterMode(display=False),
    "mutation": torch.autograd.graph.allow_mutation_on_saved_tensors,
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_backward_passes_run_in_modes(mode: Callable[[], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"), mode():
        x = torch.ones(6, 4, device="cuda", requires_grad=True)
        (x.exp() + x.sin()).square().sum().backward()
        assert x.grad is not None
        assert x.grad.shape == (6, 4)


def watched(device: str) -> Any:
    with Counting():
        x = torch.ones(60, 40, device=device, requires_grad=True)
        (x.exp() + x.sin()).backward(torch.ones(60, 40, device=device))
    return x


def test_a_mode_of_the_program_keeps_the_engine_from_adding_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = dry_events.Tape(monkeypatch)
    tape.run(watched, tmp_path)
    assert tape.at_end == dry_events.real_events(watched)

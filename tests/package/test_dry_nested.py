"""Nested tensors of the jagged layout in dry runs."""

# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch import nn

from vram.dry import dry_run

pytestmark = pytest.mark.filterwarnings("ignore")
F = nn.functional
LENGTHS = (3, 9, 17)


def batch(device: str, width: int = 64) -> Any:
    return torch.nested.nested_tensor([torch.ones(n, width) for n in LENGTHS], layout=torch.jagged, device=device)


def trained(device: str) -> Any:
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 64)).to(device)
    x = torch.nested.nested_tensor_from_jagged(
        torch.ones(29, 64, device=device), torch.tensor([0, 3, 12, 29]).to(device)
    )
    for _ in range(2):
        (model(x) + x).values().sum().backward()
    return model, x


def without_brief(events: dry_events.Events) -> dry_events.Events:
    """Leave out what is freed before anything else happens, as the temporaries of the CPU's kernels are, and what is small."""
    found: dry_events.Events = []
    for event in events:
        if found and event < 0 and found[-1] == -event:
            found.pop()
        elif abs(event) > 512:
            found.append(event)
    return found


def test_the_same_bytes_as_for_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = dry_events.Tape(monkeypatch)
    tape.run(trained, tmp_path)
    real = dry_events.real_events(trained)
    assert without_brief(tape.at_end) == without_brief(real)


def attention(device: str) -> Any:
    x = batch(device)
    projected = (nn.Linear(64, 64).to(device)(x).unflatten(-1, [4, 16]).transpose(1, 2) for _ in range(3))
    found = F.scaled_dot_product_attention(*projected).transpose(1, 2).flatten(-2)
    found.values().sum().backward()
    return found.values().shape


def moved(device: str) -> Any:
    x = batch("cpu")
    there = x.to(device)
    return there.device.type == device, there.size(1) == x.size(1), (there * 2).values().shape


PROGRAMS: dict[str, Callable[[str], Any]] = {
    "attention": attention,
    "moved": moved,
    "padded": lambda device: torch.nested.to_padded_tensor(batch(device), 0.0).shape,
    "unbound": lambda device: [each.shape for each in batch(device).unbind()],
    "from values and offsets": lambda device: (
        torch.nested.nested_tensor_from_jagged(
            torch.ones(29, 8, device=device), torch.tensor([0, 3, 12, 29], device=device)
        )
        .mean(dim=1)
        .shape
    ),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_jagged_tensors_have_the_shapes_of_the_cpu(program: Callable[[str], Any], tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        found = program("cuda")
    assert found == program("cpu")


@pytest.mark.parametrize(("dtype", "kernel"), [(torch.bfloat16, "flash"), (torch.float32, "efficient")])
def test_attention_chooses_its_kernel(dtype: torch.dtype, kernel: str, tmp_path: Path) -> None:
    with (
        dry_run("H200", path=tmp_path / "dry.vtrace") as run,
        torch.autocast("cuda", dtype, enabled=dtype != torch.float32),
    ):
        attention("cuda")
    assert f"aten._{kernel}_attention_forward.default" in run.unknown_operators


def test_the_products_of_layers_have_a_workspace(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        nn.Linear(64, 64, device="cuda")(batch("cuda"))
        assert torch.cuda.max_memory_allocated() > 32 << 20
    assert not run.unknown_operators

"""Pinned host memory of a stand-in of PyTorch, as vram.step() records it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import vram
from vram import _marks
from vram.recording import _pinned


class Machine:
    """A clock, and PyTorch's counters, whose reading takes 30 us."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.readings = 0

    def read(self) -> dict[str, dict[str, int]]:
        self.now_ns += 30_000
        self.readings += 1
        return {"allocated_bytes": {"current": 2 << 20}, "active_bytes": {"current": 1 << 20}}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(_pinned, "_State", type("_State", (_pinned._State,), {}))
    monkeypatch.setattr(_pinned, "time", SimpleNamespace(perf_counter_ns=lambda: made.now_ns))
    cuda = SimpleNamespace(host_memory_stats_as_nested_dict=made.read, is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda=None)))
    return made


def test_each_step_of_usual_length_reads_it(machine: Machine, tmp_path: Path) -> None:
    with vram.record(tmp_path / "run.vtrace", stacks=None):
        for _ in range(5):
            machine.now_ns += 50_000_000
            vram.step()
    assert machine.readings == 5


def test_short_steps_spend_a_thousandth_of_their_time_on_it(machine: Machine, tmp_path: Path) -> None:
    with vram.record(tmp_path / "run.vtrace", stacks=None):
        for _ in range(1000):
            machine.now_ns += 4_000_000
            vram.step()
    assert 100 <= machine.readings <= 134


def test_each_recording_begins_with_it(machine: Machine, tmp_path: Path) -> None:
    for name in ("first.vtrace", "second.vtrace"):
        with vram.record(tmp_path / name, stacks=None):
            vram.step()
    assert machine.readings == 2


def test_a_step_between_two_readings_does_not_ask_whether_a_recording_runs(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def is_recording() -> bool:
        asked.append(True)
        return True

    monkeypatch.setattr(_marks, "is_recording", is_recording)
    with vram.record(tmp_path / "run.vtrace", stacks=None):
        for _ in range(5):
            machine.now_ns += 4_000_000
            vram.step()
    assert (len(asked), machine.readings) == (1, 1)

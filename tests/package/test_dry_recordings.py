"""The events of a dry run are those that PyTorch's allocator recorded on an H200, in order and to the byte, with all temporaries of kernels.

The recordings are those of bench/prediction, of programs that need only PyTorch.
"""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import vram

BENCH = Path(__file__).parents[2] / "bench/prediction"
sys.path.append(str(BENCH))
journal, language, training = map(importlib.import_module, ("journal", "language", "training"))
# Sizes that no block of the programs has: they mark the calls of operators in the recording.
MARKS = (journal.START, journal.BEGIN, journal.END)

# Bytes of each block, and the numbers of those that died since the one before.
Births = list[tuple[int, tuple[int, ...]]]


def births(events: Iterable[tuple[str, int, int]]) -> Births:
    """The blocks of events (what, address, bytes). Which of several deaths in a row comes first makes no difference."""
    found: Births = []
    living: dict[int, int] = {}
    dead: list[int] = []
    for action, address, size_bytes in events:
        if action == "alloc" and size_bytes not in MARKS:
            living[address] = len(found)
            found.append((size_bytes, tuple(sorted(dead))))
            dead.clear()
        elif action == "free_completed" and address in living:
            dead.append(living.pop(address))
    return found


@functools.cache
def recorded(program: str) -> dict[str, Any]:
    with tarfile.open(BENCH / "measured-h200.tar.xz") as archive:
        for entry in archive:
            if entry.name == f"measured/journal/{program}.json":
                file = archive.extractfile(entry)
                assert file is not None
                found: dict[str, Any] = json.load(file)
                return found
    raise AssertionError(f"{program} is not in the archive")


def lines_of(trace: Path) -> list[str]:
    lines = trace.with_suffix(".jsonl")
    subprocess.run([str(vram.program()), "convert", str(trace), str(lines)], check=True, timeout=60)
    return lines.read_text().splitlines(keepends=True)


def dry_run_of(program: str, path: Path) -> vram.DryRun:
    family, precision, batch = program.split(".")
    with vram.dry_run("H200", path=path / "dry.vtrace", torch_version="2.11.0") as run:
        step = getattr(language, family)(training.Setup(int(batch), precision, "cuda", False))
        for _ in range(len(recorded(program)["steps"])):
            loss = step()  # the last one lives until the next, as in measure.py
        del loss
    return run


PROGRAMS = ["moe.fp32.4", "moe.bf16_autocast.4"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_events_and_reserved_bytes_are_the_recorded_ones(program: str, tmp_path: Path) -> None:
    history = recorded(program)["history"]
    on_gpu = births((history["actions"][row[0]], row[1], row[2]) for row in history["rows"])
    run = dry_run_of(program, tmp_path)
    events = [json.loads(line) for line in lines_of(run.trace_path)]
    predicted = births((each["action"], int(each["address"], 16), each["size_bytes"]) for each in events)
    assert len(on_gpu) > 1000
    assert predicted == on_gpu
    assert run.peak.reserved_bytes == recorded(program)["steps"][-1]["reserved_bytes.peak"]


def test_segments_lie_where_a_replay_places_them(tmp_path: Path) -> None:
    """Which of two equal free blocks is taken depends on it, and with it the least memory."""
    run = dry_run_of(PROGRAMS[0], tmp_path)
    lines = lines_of(run.trace_path)
    without = tmp_path / "without.jsonl"
    without.write_text("".join(line for line in lines if '"action":"segment_' not in line))
    assert len(without.read_text().splitlines()) < len(lines)

    def least(trace: Path) -> int:
        command = [str(vram.program()), "replay", str(trace), "--allocator", "torch", "--capacity", "unlimited"]
        answer = json.loads(subprocess.check_output([*command, "--min-capacity", "--json"], timeout=60))
        return int(answer["results"][0]["min_capacity_bytes"])

    assert least(run.trace_path) == least(without)

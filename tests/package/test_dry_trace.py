"""The trace of a dry run: where it is, and how long it exists."""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from vram.dry import DryRun, dry_run

MIB = 1 << 20


def request() -> Any:
    return torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")


def is_right(run: DryRun) -> bool:
    return run.peak.requested_bytes == 4 * MIB and bool(run.fits) and "4 MiB" in run.report()


def test_a_program_may_change_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the same name in the other folder is of another program."""
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    with dry_run("24GiB", path="dry.vtrace") as run:
        request()
        os.chdir(other)
    assert run.trace_path == tmp_path / "dry.vtrace"
    assert is_right(run)


@pytest.mark.parametrize("name", ["dry.trace", "dry", "dry.jsonl"])
def test_the_file_has_any_name(name: str, tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / name) as run:
        request()
    assert is_right(run)


def test_processes_that_are_forked_leave_the_trace_where_it_is() -> None:
    with dry_run("24GiB") as run:
        request()
    child = os.fork()
    if child == 0:
        del run
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert is_right(run)
    folder = run.trace_path.parent
    del run
    gc.collect()
    assert not folder.exists()

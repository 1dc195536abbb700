"""The trace of a dry run: where it is, how long it exists, and the error of a run without requests."""

# mypy: allow-untyped-calls

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import vram
from vram.dry import DryRun, dry_run
from vram.dry.__main__ import main

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


def test_a_file_that_another_dry_run_replaced_is_no_trace_of_this_one(tmp_path: Path) -> None:
    """A loop over sizes, which prints all results at its end, would print those of the last one."""
    runs = []
    for _ in range(3):
        with dry_run("24GiB", path=tmp_path / "dry.vtrace") as run:
            request()
        runs.append(run)
    first, second, last = runs
    for result in (lambda: first.peak, lambda: second.fits, first.report, second.why):
        with pytest.raises(vram.VramError, match="replaced or deleted since"):
            result()
    assert is_right(last)
    last.trace_path.unlink()
    with pytest.raises(vram.VramError, match="replaced or deleted since"):
        last.report()


NO_REQUESTS = "requested no memory of the GPU"


def test_a_program_without_requests_has_no_results() -> None:
    with dry_run("24GiB") as run:
        torch.ones(3)
    for result in (lambda: run.peak, lambda: run.fits, run.report, run.why, run.by_module, lambda: str(run)):
        with pytest.raises(vram.VramError, match=NO_REQUESTS):
            result()


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("import torch", [], NO_REQUESTS),
        ("import torch; torch.ones(3).cuda()", ["--allocator", "tourch"], "no allocator is called"),
    ],
)
def test_a_script_without_results_is_told_why(
    text: str, options: list[str], error: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    assert main(["--gpu", "24GiB", *options, str(script)]) == 2
    output = capfd.readouterr()
    assert output.err.startswith("error: ")
    assert error in output.err
    assert not output.out


def test_results_are_printed_where_the_script_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("import io, sys, torch; torch.ones(3).cuda(); sys.stdout = io.StringIO()")
    assert main(["--gpu", "24GiB", str(script)]) == 0
    assert capsys.readouterr().out.startswith("fits on")

"""What the program `vram` answers about the trace of a dry run. A call of the library can replace each function."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from vram._error import VramError
from vram._installed import program
from vram._texts import tr


def _run(*arguments: str) -> str:
    done = subprocess.run([str(program()), *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a finding
        raise VramError(tr("vram {} failed: {}").format(arguments[0], done.stderr.strip() or done.returncode))
    return done.stdout


def replay(
    trace: Path,
    allocator: str,
    *,
    finds_capacity: bool = False,
    capacity: int | None = None,
    device: int | None = None,
) -> dict[str, Any]:
    """Return the result of replaying a trace with so much memory (None: any): an object of vram.replay/1.

    Of several devices, it is that of `device`; None: of the one that requests most.

    Raises:
        VramError: No capacity suffices, if one is to be found.
    """
    more = ["--min-capacity"] if finds_capacity else []
    more += [] if device is None else ["--device", str(device)]
    answer = json.loads(
        _run(
            "replay",
            str(trace),
            "--allocator",
            allocator,
            "--capacity",
            # 0 bytes are no capacity, and suffice for nothing, as 1 does.
            "unlimited" if capacity is None else f"{max(capacity, 1)}B",
            "--json",
            *more,
        )
    )
    result: dict[str, Any] = answer["results"][0]
    if finds_capacity and result["min_capacity_bytes"] is None:
        raise beyond_any_gpu(trace)
    return result


def beyond_any_gpu(trace: Path) -> VramError:
    """Return the error of a program that no capacity suffices for."""
    return VramError(
        tr(
            "no capacity was found with which the program completes, because it requests more memory at a time than any GPU has; "
            "the trace {} contains its requests; a program that tries sizes until memory runs out needs raise_oom=True (--raise-oom)"
        ).format(trace)
    )


def convert(trace: Path, path: Path) -> None:
    """Write a trace in the format of the path's extension."""
    _run("convert", str(trace), str(path))


def report(trace: Path) -> str:
    """Return the report of a trace, as text."""
    return _run("report", str(trace))


def moment(trace: Path, event: int | None = None) -> dict[str, Any]:
    """Return what a report says about the memory after an event, or at the peak of requested bytes, with all holders."""
    at = [] if event is None else ["--at", f"event:{event}"]
    report = json.loads(_run("report", str(trace), "--json", "--top", "0", *at))
    found: dict[str, Any] = {**report["at_peak" if event is None else "at"], "events": report["events"]}
    return found


def holders(moment: dict[str, Any]) -> list[dict[str, Any]]:
    """Return who holds the requested bytes of a moment: objects "holder" of vram.report/1, largest first."""
    found: list[dict[str, Any]] = next((b["holders"] for b in moment["breakdowns"] if b["by"] == "user_frame"), [])
    return found

"""Marks of collectives: real torch.distributed in two processes over gloo, recorded, reported and exported."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="these tests need PyTorch")
from conftest import BINARY

PROGRAM = Path(__file__).with_name("collectives_rank.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("collectives")
    words = [sys.executable, str(PROGRAM), str(folder)]
    port = str(free_port())
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    ranks = [
        subprocess.Popen([*words, str(rank), port], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    for rank in ranks:
        output = rank.communicate(timeout=180)[0].decode()
        assert rank.returncode == 0, output
        assert "lost 0" in output
    return [folder / f"run.rank{rank}.vtrace" for rank in range(2)]


def report(file: Path) -> dict[str, Any]:
    done = subprocess.run([BINARY, "report", file, "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_every_collective_is_a_mark_with_its_bytes_and_group(recordings: list[Path]) -> None:
    for rank, file in enumerate(recordings):
        totals = {(total["name"], total["group"]): total for total in report(file)["marks"]["totals"]}
        reduced = totals["all_reduce", "default_pg"]
        # Of each step, DistributedDataParallel's gradients and the program's own; then the functional one.
        assert reduced["count"] == 5 * 2 + 1
        assert reduced["bytes"] == 5 * (64 * 32 * 4 + 4000) + 28
        assert reduced["kind"] == "collective"
        assert reduced["duration_ns"] > 0
        assert totals["all_gather", "default_pg"]["bytes"] == 2 * 10 * 4
        assert totals["broadcast", "default_pg"]["bytes"] >= 12  # and those of DistributedDataParallel
        assert totals["all_reduce", "pair"]["bytes"] == 40
        assert totals["all_reduce", "sparse"]["bytes"] == 2 * 8 + 2 * 4  # indices and values
        name = "recv" if rank else "send"
        assert totals[name, "default_pg"]["bytes"] == 44
        assert totals["barrier", "default_pg"]["bytes"] == 0


def test_marks_are_tied_to_steps(recordings: list[Path]) -> None:
    document = report(recordings[0])
    marks = document["marks"]
    reduced = [total["name"] == "all_reduce" and total["group"] == "default_pg" for total in marks["totals"]].index(
        True
    )
    steps = [item["step"] for item in marks["items"] if item["total"] == reduced]
    assert steps[:10] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert marks["totals"][reduced]["step_count"] == 2
    assert marks["totals"][reduced]["step_bytes"] == 64 * 32 * 4 + 4000
    text = subprocess.run(
        [BINARY, "report", "--full", recordings[0]], capture_output=True, text=True, check=False, timeout=60
    ).stdout
    line = next(line for line in text.splitlines() if "all_reduce · default_pg" in line)
    assert "2 calls" in line
    assert "11.9 KiB" in line


def test_timelines_show_them_as_slices(recordings: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "run.chrome.json"
    subprocess.run(
        [BINARY, "convert", recordings[0], to, "--to", "chrome"], check=True, capture_output=True, timeout=60
    )
    events = json.loads(to.read_text())["traceEvents"]
    tracks = {event["tid"] for event in events if event["ph"] == "M" and event["args"]["name"] == "communication"}
    slices = [event for event in events if event["ph"] == "B" and event["tid"] in tracks]
    assert [event["name"] for event in slices[:2]] == ["all_reduce", "all_reduce"]
    assert slices[0]["args"] == {"kind": "collective", "bytes": 64 * 32 * 4, "group": "default_pg"}
    assert len(slices) == report(recordings[0])["marks"]["count"]


def test_a_recording_that_is_converted_keeps_its_marks(recordings: list[Path], tmp_path: Path) -> None:
    to = tmp_path / "again.vtrace"
    subprocess.run([BINARY, "convert", recordings[0], to], check=True, capture_output=True, timeout=60)
    assert report(to)["marks"] == report(recordings[0])["marks"]

"""Recordings of other programs, as vram reports them and as the file itself adds them up."""

import collections
import gzip
import json
import lzma
import os
import pathlib
import re
import subprocess
from typing import Any

import pytest
from program import ROOT, vram, vram_json

DATA = ROOT / "tests/data/foreign"
PROFILER = DATA / "torch_profiler.json.xz"
JAX = DATA / "jax_memory.pb.gz"
RMM = DATA / "rmm.csv"
XPROF = DATA / "xprof.xplane.pb.gz"
MEMORY_PROFILE = DATA / "xprof_memory_profile.json.gz"

Json = dict[str, Any]


def report(path: pathlib.Path, *more: str) -> Json:
    document: Json = vram_json("report", path, "--top", "0", *more)
    return document


def holders(document: Json, by: str) -> dict[str, int]:
    (breakdown,) = [each for each in document["at_peak"]["breakdowns"] if each["by"] == by]
    return {holder["name"]: holder["requested_bytes"] for holder in breakdown["holders"]}


def profiler_events() -> list[Json]:
    events: list[Json] = json.loads(lzma.decompress(PROFILER.read_bytes()))["traceEvents"]
    return events


def test_the_profilers_totals_are_the_reports() -> None:
    """The profiler writes the allocator's own total into each event."""
    changes = sorted(
        (event for event in profiler_events() if event["name"] == "[memory]"), key=lambda event: event["ts"]
    )
    assert len(changes) > 400
    document = report(PROFILER)
    assert document["confidence"]["mismatches"] == 0
    assert document["peak"]["requested_bytes"] == max(change["args"]["Total Allocated"] for change in changes)
    # Two events a change: the block and its segment.
    for index in (0, 100, len(changes) // 2, len(changes) - 1):
        at = report(PROFILER, "--at", f"event:{2 * index + 1}")["at"]
        assert at["requested_bytes"] == changes[index]["args"]["Total Allocated"], index


def test_the_profilers_steps_and_scopes_are_the_reports() -> None:
    document = report(PROFILER)
    assert [step["name"] for step in document["steps"]["items"]] == [f"ProfilerStep#{i}" for i in (1, 2, 3)]
    assert "Optimizer.step#AdamW.step" in holders(document, "scope")
    assert all(re.match(r"make_foreign.py:\d+ ", name) for name in holders(document, "user_frame"))


def test_holders_are_operators_without_stacks_of_python(tmp_path: pathlib.Path) -> None:
    events = [event for event in profiler_events() if event.get("cat") != "python_function"]
    path = tmp_path / "operators.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    document = report(path)
    assert document["peak"] | {"time_ns": 0} == report(PROFILER)["peak"] | {"time_ns": 0}
    names = holders(document, "user_frame")
    assert any("aten::" in name for name in names)
    assert not any("aten::empty" in name for name in names)
    assert sum(names.values()) == document["peak"]["requested_bytes"]


def test_holders_by_operator_add_up_to_the_peak() -> None:
    document = report(PROFILER)
    operators = holders(document, "operator")
    assert sum(operators.values()) == document["peak"]["requested_bytes"]
    assert any(name.startswith("aten::") for name in operators)
    assert not any(name.startswith("<") or ".py" in name for name in operators)


def test_xprofs_profile_has_the_operators_of_tensorflow() -> None:
    document = report(XPROF)
    assert document["peak"]["requested_bytes"] == 25304  # by TensorFlow's own protobuf classes
    assert [step["name"] for step in document["steps"]["items"]] == [f"ProfilerStep#{i}" for i in range(3)]
    operators = holders(document, "operator")
    assert operators["adam/Square"] == 8192
    assert sum(operators.values()) == 25304


def test_xprofs_memory_profile_is_its_peak() -> None:
    document = report(MEMORY_PROFILE)
    allocator = json.loads(gzip.decompress(MEMORY_PROFILE.read_bytes()))["memoryProfilePerAllocator"]
    (summary,) = [each["profileSummary"] for each in allocator.values()]
    assert document["peak"]["allocated_bytes"] == int(summary["peakBytesUsageLifetime"])
    names = holders(document, "operator")
    assert names["unused preallocated device memory"] == 45056


def test_jaxs_profile_has_the_arrays_that_the_program_kept() -> None:
    document = report(JAX)
    kept = 4 * 256 * 256 * 4 + 3 * 64 * 256 * 4
    assert document["peak"]["requested_bytes"] == kept
    shown = subprocess.run(
        [os.environ.get("GO", "go"), "tool", "pprof", "-unit=b", "-top", str(JAX)],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    assert f"of {kept}B total" in shown
    assert sorted(holders(document, "user_frame").values()) == [3 * 64 * 256 * 4, 4 * 256 * 256 * 4]
    assert document["at_peak"]["block_count"] == 7


def test_rmms_log_is_what_its_rows_add_up_to() -> None:
    document = report(RMM)
    live: dict[str, int] = {}
    peak = 0
    actions: collections.Counter[str] = collections.Counter()
    for line in RMM.read_text().splitlines()[1:]:
        _, _, action, pointer, size, _ = line.split(",")
        actions[action] += 1
        if action == "allocate":
            live[pointer] = int(size)
        elif action == "free":
            del live[pointer]
        peak = max(peak, sum(live.values()))
    assert document["peak"]["requested_bytes"] == document["peak"]["reserved_bytes"] == peak
    assert document["allocations"] == actions["allocate"]
    assert document["oom_count"] == actions["allocate failure"]
    assert document["confidence"]["mismatches"] == 0


@pytest.mark.parametrize("recording", [PROFILER, JAX, RMM], ids=lambda path: path.name)
def test_every_command_takes_it(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy.vtrace"
    assert vram("convert", recording, copy).returncode == 0
    assert report(copy)["peak"] == report(recording)["peak"]
    for extension in (".pftrace", ".pb.gz", ".folded", ".speedscope.json", ".parquet"):
        done = vram("convert", recording, tmp_path / f"run{extension}")
        assert done.returncode == 0, done.stderr


def test_a_trace_without_memory_says_how_to_record_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "traceEvents": []}')
    done = vram("report", path)
    assert done.returncode == 2
    assert "trace.json: the trace has no [memory] events of torch.profiler" in done.stderr
    assert "profile_memory=True" in done.stderr

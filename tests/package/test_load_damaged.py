"""``vram.load()`` of damaged and hostile files, and with too little memory: an exception, and never the end of the process."""

from __future__ import annotations

import gc
import lzma
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

import vram
from vram.reports import _native

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"
WHOLE = [DATA / "snapshots" / "main.p4.pickle", *sorted((DATA / "recordings").glob("*.vtrace"))]
SMALL = [path for path in WHOLE if path.stat().st_size < 300_000]
small_recordings = pytest.mark.parametrize("recording", SMALL, ids=lambda path: path.name)


def read_everything(path: Path) -> bool:
    """Whether a file is a recording; then all of it is used: the document, all tables, a moment."""
    try:
        report = vram.load(path)
    except vram.VramError as error:
        if str(path) not in str(error):
            raise
        return False
    assert report.peak.requested_bytes <= report.peak.active_bytes
    report.state("event:0")
    for name in _native.table_names():
        report.to_arrow(name).validate(full=True)
    return True


@small_recordings
def test_a_truncated_file_is_a_report_or_an_error(recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    whole, damaged = recording.read_bytes(), tmp_path / recording.name
    results = set()
    for part in range(60):
        damaged.write_bytes(whole[: len(whole) * part // 60])
        results.add(read_everything(damaged))
    assert results == {True, False}


@small_recordings
def test_a_file_with_wrong_bytes_is_a_report_or_an_error(recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    whole, damaged = recording.read_bytes(), tmp_path / recording.name
    chosen = random.Random(18)
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(chosen.choice((1, 3, 30))):
            changed[chosen.randrange(len(changed))] = chosen.randrange(256)
        damaged.write_bytes(changed)
        read_everything(damaged)


def test_an_error_says_what_was_expected_and_found(tmp_path: Path) -> None:
    (tmp_path / "empty.vtrace").touch()
    with pytest.raises(vram.VramError, match=r"empty\.vtrace.*expected .*found"):
        vram.load(tmp_path / "empty.vtrace")
    with pytest.raises(ValueError, match=r"null byte"):
        vram.load(f"{LEAK}\0.vtrace")


LONG_NAME = "x" * (8 << 20)  # which a pickle contains once, however many frames have it


def test_frames_that_share_a_long_text_need_little_memory(tmp_path: Path) -> None:
    """Of a block that is alive, so that the report and its tables have its stack."""
    frames = [{"filename": LONG_NAME, "name": "f", "line": line} for line in range(1, 601)]
    block = {"size": 2 << 20, "requested_size": 2 << 20, "state": "active_allocated", "frames": frames}
    segment = {"device": 0, "address": 2 << 20, "total_size": 2 << 20, "stream": 0, "blocks": [block]}
    path = tmp_path / "run.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[]]}))
    command = [sys.executable, "-c", OUT_OF_MEMORY, str(path), "1024"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (holder,) = vram.load(path).holders(by="stack")
    assert [frame["line"] for frame in holder.stack] == list(range(1, 601))
    assert {frame["file"] for frame in holder.stack} == {"x" * 4096 + "…"}


def test_stacks_that_a_small_file_repeats_are_limited(tmp_path: Path) -> None:
    """Of blocks that no moment of the report shows, so that only tables have their stacks."""
    path = tmp_path / "run.pickle.xz"
    frame = {"filename": LONG_NAME, "name": "f", "line": 1}
    segment = {"action": "segment_alloc", "addr": 2 << 20, "size": 4 << 20, "stream": 0}
    block = {"action": "alloc", "addr": 2 << 20, "size": 1 << 20, "stream": 0}
    larger = {**block, "size": 3 << 20}
    events = [segment]
    for length in range(60_000, 60_020):  # stacks that differ
        frees = [{**block, "action": action} for action in ("free_requested", "free_completed")]
        events += [{**block, "frames": [frame] * length}, *frees]
    path.write_bytes(lzma.compress(pickle.dumps({"segments": [], "device_traces": [[*events, larger]]}), preset=0))
    assert path.stat().st_size < 1 << 20
    report = vram.load(path)
    for table in ("events", "allocations"):
        with pytest.raises(vram.VramError, match=r"the stacks of this recording need 4\.\d+ GiB as texts"):
            report.table(table).__arrow_c_stream__()
    assert report.table("devices").__arrow_c_stream__()


OUT_OF_MEMORY = """
import os, resource, sys
import vram
from vram.reports import _native
_native.library()
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * os.sysconf("SC_PAGE_SIZE") + (int(sys.argv[2]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    report = vram.load(sys.argv[1])
    for name in _native.table_names():
        report.table(name).__arrow_c_stream__()
except (MemoryError, vram.VramError) as error:
    os.write(1, type(error).__name__.encode())
    os._exit(3)
"""


def test_memory_that_is_missing_is_an_exception() -> None:
    """At every stage: while the file is read, explained, replayed by threads, written as JSON, made into tables."""
    results = []
    for mebibytes in (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64, 4096):
        command = [sys.executable, "-c", OUT_OF_MEMORY, str(LEAK), str(mebibytes)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode in (0, 3), (mebibytes, done)
        results.append(done.returncode)
    assert results[0] == 3
    assert results[-1] == 0


def test_a_stream_at_the_end_of_the_process_is_released_in_silence() -> None:
    code = """
import sys, vram
kept = vram.load(sys.argv[1]).table("events").__arrow_c_stream__()
class Cycle: pass
cycle = Cycle()
cycle.itself, cycle.stream = cycle, vram.load(sys.argv[1]).table("steps").__arrow_c_stream__()
"""
    command = [sys.executable, "-c", code, str(SMALL[0])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


AT_THE_END = [
    """
import atexit, sys
kept = []
atexit.register(lambda: print(kept[0].state("peak")["event"]))  # which runs after all that is registered later
import vram
kept.append(vram.load(sys.argv[1]))
""",
    """
import sys, threading, vram
report, used = vram.load(sys.argv[1]), threading.Event()
def use():
    while True:
        report.state("step:3")
        report.table("events").__arrow_c_stream__()
        used.set()
for _ in range(3):
    threading.Thread(target=use, daemon=True).start()
used.wait()
""",
]


@pytest.mark.parametrize("code", AT_THE_END, ids=["atexit", "daemon threads"])
def test_a_report_may_be_used_until_the_process_ends(code: str) -> None:
    command = [sys.executable, "-c", code, str(LEAK)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_closing_a_report_leaves_its_streams() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    report = vram.load(LEAK)
    expected = report.to_arrow("allocations")
    stream = pyarrow.RecordBatchReader.from_stream(report.table("allocations"))
    del report
    gc.collect()
    assert stream.read_all().equals(expected)

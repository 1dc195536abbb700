"""`vram convert RUN OUT.pickle` writes what PyTorch's own programs read: pickle.load, torch.cuda._memory_viz, and the opcodes of its viewer.

A snapshot of PyTorch that goes through a .vtrace file is the same snapshot again, and vram reports the same of what it wrote.
"""

import bisect
import copy
import gzip
import importlib.util
import io
import json
import lzma
import pathlib
import pickle
import pickletools
import subprocess
import sys
from typing import Any

import program
import pytest
from program import BINARY, ROOT, vram_json

LEAK = ROOT / "demo/leak.stacks.pickle.xz"
UNET = ROOT / "demo/unet_multiscale.pickle.xz"
EXPANDABLE = ROOT / "tests/data/middle/unet_multiscale.mid.exp.pickle.xz"
MIDDLE = ROOT / "tests/data/middle/unet_multiscale.mid.pickle.xz"
CURRENT = ROOT / "tests/data/snapshots/v2.12.p4.pickle"
RANK = ROOT / "tests/data/recordings/run.rank1.vtrace"
PROFILER = ROOT / "tests/data/foreign/torch_profiler.json.xz"
RMM = ROOT / "tests/data/foreign/rmm.csv"
XPROF = ROOT / "tests/data/foreign/xprof.xplane.pb.gz"
JAX = ROOT / "tests/data/foreign/jax_memory.pb.gz"
OF_PYTORCH = [LEAK, UNET, EXPANDABLE, MIDDLE, CURRENT]
PROFILE = ROOT / "tests/data/snapshots/profile.p4.pickle"
RECORDINGS = [*OF_PYTORCH, RANK, PROFILER, RMM, XPROF, JAX]

# What PyTorch's viewer decodes (MemoryViz.js).
VIEWERS_OPCODES = {
    *("PROTO", "STOP", "MARK", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "EMPTY_LIST", "APPEND", "APPENDS", "LIST", "EMPTY_DICT", "DICT"),
    *("SETITEM", "SETITEMS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}

every_recording = pytest.mark.parametrize("recording", [*RECORDINGS, PROFILE], ids=lambda path: path.name)
# The profile has blocks where no segment is.
recording_with_segments = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)
pytorchs_recording = pytest.mark.parametrize("recording", OF_PYTORCH, ids=lambda path: path.name)

Json = dict[str, Any]


def memory_viz() -> Any:
    """torch.cuda._memory_viz without importing PyTorch, which takes seconds: it needs the standard library alone."""
    torch = importlib.util.find_spec("torch")
    assert torch
    assert torch.origin
    path = pathlib.Path(torch.origin).parent / "cuda/_memory_viz.py"
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VIZ = memory_viz()


def convert(recording: pathlib.Path, out: pathlib.Path, *more: str) -> pathlib.Path:
    done = program.vram("convert", recording, out, *more)
    assert done.returncode == 0, done.stderr
    return out


def load(path: pathlib.Path) -> Json:
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    snapshot: Json = pickle.loads(data)
    return snapshot


def through_vtrace(recording: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    return convert(convert(recording, folder / "run.vtrace"), folder / "run.pickle")


@pytorchs_recording
def test_a_snapshot_of_pytorch_is_the_same_again(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = load(recording)
    after = load(through_vtrace(recording, tmp_path))
    by_address = sorted(before["segments"], key=lambda segment: (segment["device"], segment["address"]))
    assert after["segments"] == by_address
    assert [len(entries) for entries in after["device_traces"]] == [len(entries) for entries in before["device_traces"]]
    for old, new in zip(before["device_traces"], after["device_traces"], strict=True):
        for was, is_now in zip(old, new, strict=True):
            expected = {key: value for key, value in was.items() if key != "frames" or value}
            if "pool_id" in expected:
                expected["pool_id"] = tuple(expected["pool_id"])
            assert is_now == expected
    assert after["allocator_settings"] == before["allocator_settings"]
    annotations = before.get("external_annotations", [])
    assert after["external_annotations"] == annotations
    assert set(after) - set(before) <= {"vram", "external_annotations"}


@pytorchs_recording
def test_memory_viz_says_the_same_of_both(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = load(recording)
    before["segments"].sort(key=lambda segment: (segment["device"], segment["address"]))
    after = load(through_vtrace(recording, tmp_path))
    assert VIZ.segsum(after) == VIZ.segsum(before)
    assert lines_of(VIZ.segments, after) == lines_of(VIZ.segments, before)
    assert lines_of(VIZ.memory, after) == lines_of(VIZ.memory, before)
    for snapshot in (before, after):
        for entries in snapshot["device_traces"]:
            for entry in entries:
                # Printed as it is; an oom has no address.
                if entry["action"] == "snapshot":
                    entry.clear()
                    entry["action"] = "snapshot"
    assert VIZ.trace(after) == VIZ.trace(before)


def lines_of(view: Any, snapshot: Json) -> list[str]:
    text: str = view(snapshot, format_flamegraph=lambda lines: lines)
    return text.splitlines()


@recording_with_segments
def test_pytorchs_programs_accept_every_recording(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = convert(recording, tmp_path / "run.pickle")
    snapshot = load(path)
    VIZ.segsum(snapshot)  # asserts that blocks fill their segments
    shown = VIZ.trace(snapshot)
    for number, entries in enumerate(snapshot["device_traces"]):
        assert not entries or f"Device {number} ------" in shown
    page = VIZ.trace_plot(copy.deepcopy(snapshot), filter_freed=True)
    assert "add_local_files" in page
    assert "add_local_files" in VIZ.segment_plot(snapshot)
    assert {opcode.name for opcode, _, _ in pickletools.genops(path.read_bytes())} <= VIEWERS_OPCODES
    every_block_is_in_a_segment(snapshot)
    categories = {entry.get("category") for entries in snapshot["device_traces"] for entry in entries}
    # The viewer fails where it has to add it.
    assert categories <= {None} or "unknown" in categories


def every_block_is_in_a_segment(snapshot: Json) -> None:
    """The viewer goes back from the end, and fails at a block or a part of a segment that is in none."""
    for device, entries in enumerate(snapshot["device_traces"]):
        own = [segment for segment in snapshot["segments"] if segment["device"] == device]
        for segment in own:
            address = segment["address"]
            for block in segment["blocks"]:
                assert block["address"] == address
                address += block["size"]
        mapped = Ranges([(segment["address"], segment["total_size"]) for segment in own])
        for entry in reversed(entries):
            if entry["action"] in ("segment_free", "segment_unmap"):
                mapped.add(entry["addr"], entry["size"])
            elif entry["action"] in ("segment_alloc", "segment_map"):
                mapped.remove(entry["addr"], entry["size"])
            elif entry["action"] in ("free_completed", "free_requested"):
                mapped.find(entry["addr"], 1)


class Ranges:
    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self.begins = sorted(begin for begin, _ in ranges)
        self.ends = {begin: begin + size for begin, size in ranges}

    def find(self, begin: int, size: int) -> int:
        at = bisect.bisect_right(self.begins, begin) - 1
        assert at >= 0
        assert begin + size <= self.ends[self.begins[at]]
        return at

    def add(self, begin: int, size: int) -> None:
        at = bisect.bisect_right(self.begins, begin)
        end = begin + size
        if at < len(self.begins) and self.begins[at] == end:
            end = self.ends.pop(self.begins.pop(at))
        if at > 0 and self.ends[self.begins[at - 1]] == begin:
            at -= 1
            begin = self.begins.pop(at)
        self.begins.insert(at, begin)
        self.ends[begin] = end

    def remove(self, begin: int, size: int) -> None:
        at = self.find(begin, size)
        first = self.begins.pop(at)
        last = self.ends.pop(first)
        for low, high in ((begin + size, last), (first, begin)):
            if low < high:
                self.begins.insert(at, low)
                self.ends[low] = high


@every_recording
def test_vram_reports_the_same_of_what_it_wrote(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = convert(recording, tmp_path / "run.pickle")
    before, after = (vram_json("report", each, "--top", "0") for each in (recording, path))
    assert after["format"].startswith("PyTorch snapshot (pickle protocol 4), from ")
    for document in (before, after):
        for name in ("path", "format", "file_bytes"):
            document.pop(name)
    assert after == before


@every_recording
def test_events_are_the_same_too(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = convert(recording, tmp_path / "run.pickle")
    before = convert(recording, tmp_path / "before.jsonl").read_bytes()
    assert convert(path, tmp_path / "after.jsonl").read_bytes() == before


def test_hostile_names_are_data(tmp_path: pathlib.Path) -> None:
    names = [
        "cos\nsystem\n(S'touch owned'\ntR.",
        "__proto__",
        "\x1b[2J",
        "a" * 70_000,
        "\udc80",
        "</script>",
        "N/A",
        "action",
    ]
    frames = [{"name": name, "filename": name, "line": 1} for name in names]
    entry = {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 5, "user_metadata": names[0]}
    source = tmp_path / "hostile.pickle"
    source.write_bytes(
        pickle.dumps(
            {
                "segments": [],
                "device_traces": [[{**entry, "frames": frames}]],
                "allocator_settings": {"__proto__": names[0]},
                "external_annotations": [{"stage": "START", "name": names[0], "device": 0, "time_us": 1}],
            }
        )
    )
    out = convert(source, tmp_path / "out.pickle")
    assert {opcode.name for opcode, _, _ in pickletools.genops(out.read_bytes())} <= VIEWERS_OPCODES
    snapshot = load(out)
    (written,) = snapshot["device_traces"][0]
    assert written["user_metadata"] == names[0]
    assert [frame["name"] for frame in written["frames"]] == [
        name if name != "\udc80" else "\ufffd" * 3 for name in names
    ] or [frame["name"] for frame in written["frames"]] == [name if name != "\udc80" else "\ufffd" for name in names]
    assert snapshot["allocator_settings"] == {"__proto__": names[0]}
    assert snapshot["external_annotations"][0]["name"] == names[0]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["hostile.pickle", "out.pickle"]


def test_a_snapshot_of_vram_is_replaced_and_another_is_not(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "run.pickle"
    first = convert(LEAK, out).read_bytes()
    assert convert(RANK, out).read_bytes() != first
    foreign = pickle.dumps({"vram": 1, "segments": [], "device_traces": []})
    out.write_bytes(foreign)
    refused = program.vram("convert", LEAK, out)
    assert refused.returncode == 2
    assert "was not written by vram" in refused.stderr
    assert out.read_bytes() == foreign
    assert convert(LEAK, out, "--force").read_bytes() == first


def test_the_format_may_be_named_and_piped(tmp_path: pathlib.Path) -> None:
    expected = convert(LEAK, tmp_path / "run.pickle").read_bytes()
    piped = subprocess.run(
        [BINARY, "convert", LEAK, "-", "--to", "pytorch"], capture_output=True, check=True, timeout=120
    )
    assert piped.stdout == expected
    assert json.dumps(pickle.load(io.BytesIO(piped.stdout))["device_traces"])


def test_memory_viz_reads_it_as_a_program(tmp_path: pathlib.Path) -> None:
    path = convert(RANK, tmp_path / "run.pickle")
    script = VIZ.__file__
    shown = program_output(script, "stats", path)
    assert "total_reserved" in shown
    page = tmp_path / "page.html"
    program_output(script, "trace_plot", path, "-o", page)
    assert "MemoryViz.js" in page.read_text()


def program_output(script: str, *words: object) -> str:
    done = subprocess.run(
        [sys.executable, script, *map(str, words)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout

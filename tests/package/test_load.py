"""``vram.load()``: the same figures as ``vram report --json``, and tables that PyArrow and pandas read."""

from __future__ import annotations

import csv
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import vram
from vram import _library
from vram.reports import _native

ROOT = Path(__file__).resolve().parents[2]
LEAK = ROOT / "demo" / "leak.stacks.pickle.xz"
UNET = ROOT / "demo" / "unet_multiscale.pickle.xz"
FAILED = ROOT / "tests" / "data" / "snapshots" / "main.p4.pickle"
DATA = ROOT / "tests" / "data"
RECORDINGS = [
    LEAK,
    UNET,
    FAILED,
    *sorted((DATA / "recordings").glob("*.vtrace")),
    *sorted((DATA / "middle").glob("*.xz")),
]
all_recordings = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)


def program(*words: object) -> str:
    """The output of the program of the build that the library is from."""
    command = [str(_library.path().with_name("vram")), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def document_of(recording: Path, *options: object) -> Any:
    return json.loads(program("report", recording, "--json", *options))


def with_columns(objects: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    return [{name: each[name] for name in names} for each in objects]


@all_recordings
def test_it_is_the_report_that_the_program_prints(recording: Path) -> None:
    report, document = vram.load(recording), document_of(recording)
    assert report.to_dict() == document
    assert report.to_dict(top=2) == document_of(recording, "--top", 2)
    assert report.to_dict(top=None) == document_of(recording, "--top", 0)
    assert (report.path, report.format, report.settings) == (
        str(recording),
        document["format"],
        document["settings"],
    )
    for one, device in zip(report.devices, document["devices"], strict=True):
        assert (one.device, one.kind, one.confidence) == (
            device["device"],
            device["kind"],
            device["confidence"]["word"],
        )
        peak = vars(one.peak)
        assert peak == {name: device["peak"][name] for name in peak}
        assert [vars(step) for step in one.steps] == device["steps"]["items"]
        assert [vars(finding) for finding in one.findings] == device["findings"]
        assert [vars(holder) for holder in one.holders()] == device["holders"]
    assert vars(report.peak) == vars(report.device.peak)
    assert report.peak.requested_bytes == document["peak"]["requested_bytes"]
    assert [vars(holder) for holder in report.holders()] == document["holders"]


@pytest.mark.parametrize("at", ["peak", "step:3", "event:12345", "250ms"])
def test_a_moment_is_the_one_that_the_program_shows(at: str) -> None:
    report, expected = vram.load(UNET), document_of(UNET, "--at", at)["at"]
    assert report.state(at) == expected
    for breakdown in expected["breakdowns"]:
        assert [vars(holder) for holder in report.holders(at, by=breakdown["by"])] == breakdown["holders"]


def test_all_holders_add_up_to_the_moment() -> None:
    report = vram.load(UNET)
    for by in ("user_frame", "size", "age"):
        holders = report.holders("step:3", by=by, top=None)
        assert sum(holder.requested_bytes for holder in holders) == report.state("step:3")["requested_bytes"]
    assert len(report.holders(by="size", top=3)) == 3
    assert report.holders(by="size", top=(1 << 63) - 1) == report.holders(by="size", top=None)


@all_recordings
def test_events_are_those_that_the_program_exports(recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = vram.load(recording).to_arrow("events")
    table.validate(full=True)
    export = tmp_path / "run.csv"
    program("convert", recording, export)
    with export.open(newline="") as file:
        expected = list(csv.DictReader(file))
    rows = table.to_pylist()
    assert len(rows) == len(expected) > 0
    names = {"event": "index", "time_unix_ns": "time_ns"}
    for row, written in zip(rows, expected, strict=True):
        row["address"] = hex(row["address"])
        row.pop("time_ns")
        shown = {names.get(name, name): "" if value is None else str(value) for name, value in row.items()}
        assert shown == written


@all_recordings
def test_allocations_alive_at_the_peak_are_its_holders(recording: Path) -> None:
    pytest.importorskip("pandas")
    report = vram.load(recording)
    frame = report.to_pandas()
    for one in report.devices:
        mine = frame[(frame["device"] == one.device) & (frame["device_kind"] == one.kind)]
        peak = one.peak.event
        born = mine["alloc_event"].isna() | (mine["alloc_event"] <= peak)
        alive = mine[born & (mine["free_event"].isna() | (mine["free_event"] > peak))]
        assert int(alive["requested_bytes"].sum()) == one.peak.requested_bytes
        columns = {"user_frame": "name", "scope": "scope", "category": "category"}
        for breakdown in one.state(top=None)["breakdowns"]:
            if breakdown["by"] not in columns:
                continue
            sums = alive.groupby(columns[breakdown["by"]], observed=True)["requested_bytes"].sum()
            expected = {holder["name"]: holder["requested_bytes"] for holder in breakdown["holders"]}
            assert {name: int(size) for name, size in sums.items()} == expected
        allocated = len(mine) - int(mine["alloc_event"].isna().sum())
        assert allocated <= one._document["allocations"]


@all_recordings
def test_lists_of_the_report_are_tables(recording: Path) -> None:
    pytest.importorskip("pyarrow")
    report = vram.load(recording)
    document = report.to_dict(top=None)
    for name in ("steps", "findings", "timeline"):
        table = report.to_arrow(name)
        table.validate(full=True)
        rows = table.to_pylist()
        expected = [
            {"device": device["device"], "device_kind": device["kind"], **each}
            for device in document["devices"]
            for each in (device["steps"]["items"] if name == "steps" else device[name])
        ]
        assert rows == expected
    holders = [
        {"device": device["device"], "device_kind": device["kind"], "at": at.removeprefix("at_"), **holder}
        for device in document["devices"]
        for at in ("at_peak", "at_reserved_peak")
        for breakdown in device[at]["breakdowns"]
        for holder in breakdown["holders"]
    ]
    table = report.to_arrow("holders")
    assert table.to_pylist() == with_columns(holders, table.column_names)
    devices = [
        {**device["peak"], **device, "device_kind": device["kind"], "confidence": device["confidence"]["word"]}
        for device in document["devices"]
    ]
    table = report.to_arrow("devices")
    assert table.to_pylist() == with_columns(devices, table.column_names)


def test_every_column_is_documented() -> None:
    pytest.importorskip("pyarrow")
    report = vram.load(FAILED)
    text = (ROOT / "docs" / "load.md").read_text()
    chapters = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL))
    documented = {
        name: [
            column
            for cell in re.findall(r"^\| (`.*?) \|", chapter, re.MULTILINE)
            for column in re.findall(r"`(\w+)`", cell)
        ]
        for name, chapter in chapters.items()
    }
    assert documented == {name: report.to_arrow(name).column_names for name in _native.table_names()}


def test_integers_that_may_be_missing_stay_integers() -> None:
    pandas = pytest.importorskip("pandas")
    report = vram.load(LEAK)
    for name in _native.table_names():
        table, frame = report.to_arrow(name), report.to_pandas(name)
        assert list(frame.columns) == table.column_names
        for field in table.schema:
            if "int" in str(field.type) and "dictionary" not in str(field.type):
                assert pandas.api.types.is_integer_dtype(frame[field.name].dtype), (name, field.name)
    allocations = report.to_pandas("allocations")
    assert allocations["free_event"].isna().any()
    assert str(allocations["free_event"].dtype) == "UInt32"
    assert str(report.to_pandas("events")["stack"].dtype) == "category"


def test_a_table_is_read_without_pyarrows_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Polars and DuckDB do: through Arrow's PyCapsule interface alone."""
    pyarrow = pytest.importorskip("pyarrow")
    table = vram.load(FAILED).table("allocations")
    assert pyarrow.table(table).num_rows > 0
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    capsule = table.__arrow_c_stream__()
    assert type(capsule).__name__ == "PyCapsule"
    with pytest.raises(ImportError, match=r"to_arrow\(\) needs pyarrow: pip install pyarrow"):
        table.to_arrow()
    with pytest.raises(ImportError, match=r"to_pandas\(\) needs pandas and pyarrow: pip install pandas pyarrow"):
        table.to_pandas()


def test_a_stream_that_is_not_read_is_released() -> None:
    report = vram.load(FAILED)
    capsules = [report.table("events").__arrow_c_stream__() for _ in range(10)]
    assert len(_native._streams) == 10
    del capsules
    gc.collect()
    assert _native._streams == {}


def test_a_table_keeps_its_recording() -> None:
    pytest.importorskip("pyarrow")
    report = vram.load(FAILED)
    rows = report.to_arrow("events").num_rows
    table = report.table("events")
    arrow = report.to_arrow("events")
    del report
    gc.collect()
    assert table.to_arrow().num_rows == rows
    del table
    gc.collect()
    arrow.validate(full=True)


def test_threads_may_share_a_report() -> None:
    pytest.importorskip("pyarrow")
    report = vram.load(LEAK)
    expected = report.to_arrow("allocations")
    equal = []

    def read() -> None:
        equal.append(report.to_arrow("allocations").equals(expected) and report.state("step:3") == state)

    state = report.state("step:3")
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert equal == [True] * 4


def test_any_path_is_read(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"a\xff.pickle")
    shutil.copy(FAILED, os.fsdecode(path))
    assert vram.load(os.fsdecode(path)).peak == vram.load(str(FAILED)).peak


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        vram.load(tmp_path / "none.vtrace")
    assert missing.value.filename == str(tmp_path / "none.vtrace")
    with pytest.raises(OSError, match=r"/proc/self/mem"):
        vram.load("/proc/self/mem")
    with pytest.raises(vram.VramError, match=r"is a directory"):
        vram.load(tmp_path)
    (tmp_path / "notes.txt").write_text("no recording")
    with pytest.raises(vram.VramError, match=r"notes\.txt"):
        vram.load(tmp_path / "notes.txt")
    with pytest.raises(vram.VramError, match=r"1000 B|1,000"):
        vram.load(LEAK, max_size=1000)
    with pytest.raises(ValueError, match=r"plenty"):
        vram.load(LEAK, max_size="plenty")


def test_what_the_recording_lacks_is_an_error() -> None:
    report = vram.load(LEAK)
    with pytest.raises(ValueError, match=r"^step:1000: the recording has steps 0 to"):
        report.holders("step:1000")
    with pytest.raises(ValueError, match=r"^at takes a time .* found 'noon'"):
        report.state("noon")
    with pytest.raises(ValueError, match=r"^event:99999999: device 0 has events 0 to 27,686"):
        report.state("event:99999999")
    with pytest.raises(ValueError, match=r"'line': expected one of .*user_frame"):
        report.holders(by="line")
    with pytest.raises(ValueError, match=r"^expected top to be at least 1, got 0"):
        report.holders(top=0)
    with pytest.raises(ValueError, match=r"^expected top to be from 1 to 9223372036854775807, got"):
        report.holders(top=(1 << 64) + 3)
    with pytest.raises(ValueError, match=r"null byte in 'peak\\x00'"):
        report.state("peak\0")
    with pytest.raises(ValueError, match=r"'blocks': expected one of runs, devices"):
        report.to_arrow("blocks")


def test_without_the_library_it_names_the_file(tmp_path: Path) -> None:
    code = "import vram\ntry: vram.load('x')\nexcept vram.VramError as error: print(error)"
    missing = tmp_path / "libvram.so"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "VRAM_LIBRARY": str(missing)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert str(tmp_path / "libvram_report.so") in done.stdout
    (tmp_path / "libvram_report.so").write_text("no library")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert "this is not vram's library" in done.stdout


def test_the_program_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    shutil.copy(LEAK, tmp_path / "run.vtrace")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "load.md").read_text(), re.DOTALL)
    shown: dict[str, Any] = {}
    exec(block, shown)
    assert len(shown["frame"]) == shown["report"].to_arrow().num_rows


def test_it_is_shown_in_a_line_and_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "<b>.pickle.xz"
    shutil.copy(LEAK, odd)
    report = vram.load(odd)
    assert re.fullmatch(r"<vram\.Report '.*', GPU 0: peak .* requested, .* reserved, \d+ findings>", repr(report))
    assert repr(report.device).startswith("<vram.DeviceReport GPU 0: peak ")
    assert repr(report.table("steps")) == "<vram.ReportTable 'steps'>"
    shown = report._repr_html_()
    assert "&lt;b&gt;.pickle.xz" in shown
    assert report.findings[0].title in shown
    monkeypatch.setattr(vram.DeviceReport, "findings", report.findings[:1])
    assert repr(report.device).endswith(" reserved, 1 finding>")

"""Every format of `vram convert` is read by the program that it is for, and has the values of `vram report --json`.

Perfetto's trace processor is a binary that no package contains, so .pftrace files are read by Perfetto's own protobuf classes, and
the rules of its importer are checked here: texts by number are declared before their use, and slices of a track nest.
"""
# size: one subject: every format is compared with the same report.

import collections
import decimal
import functools
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import jsonschema
import program
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb  # type: ignore[import-untyped]
from program import BINARY, ROOT, vram_json

LEAK = ROOT / "demo/leak.stacks.pickle.xz"
RANK = ROOT / "tests/data/recordings/run.rank1.vtrace"
SAMPLE = ROOT / "tests/data/vtrace/sample.v1.vtrace"
MIDDLE = ROOT / "tests/data/middle/unet_multiscale.mid.pickle.xz"
NO_CLOCK = ROOT / "tests/data/snapshots/v2.0.p4.pickle"
RECORDINGS = [LEAK, RANK, SAMPLE, MIDDLE, NO_CLOCK]
TOTALS = ("requested", "allocated", "active", "reserved")
GO = [os.environ.get("GO", "go"), "tool", "pprof"]
EXTENSIONS = [".pftrace", ".trace.json", ".pb.gz", ".folded", ".speedscope.json"]

every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.name)

Json = dict[str, Any]


def vram(*words: str | pathlib.Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = program.vram(*words)
    assert done.returncode == code, done.stderr
    return done


def convert(recording: pathlib.Path, out: pathlib.Path, *more: str) -> pathlib.Path:
    vram("convert", recording, out, *more)
    return out


def report(recording: pathlib.Path, *more: str) -> Json:
    document: Json = vram_json("report", recording, "--top", "0", *more)
    return document


def name_of(device: Json) -> str:
    return f"GPU {device['device']}" if device["kind"] == "gpu" else "pinned host memory"


# Timelines


class Timeline:
    """What a .pftrace file says, by the name of the device and of the track."""

    def __init__(self, path: pathlib.Path) -> None:
        self.trace = pb.Trace()
        self.trace.ParseFromString(path.read_bytes())
        self.tracks: dict[int, pb.TrackDescriptor] = {}
        self.counters: dict[tuple[str, str], list[tuple[int, int]]] = collections.defaultdict(list)
        self.slices: dict[tuple[str, str], list[Json]] = collections.defaultdict(list)
        self.instants: dict[tuple[str, str], list[Json]] = collections.defaultdict(list)
        self.texts: dict[str, dict[int, str]] = {"event": {}, "name": {}, "text": {}}
        open_slices: dict[int, list[Json]] = collections.defaultdict(list)
        latest: dict[int, int] = collections.defaultdict(int)
        for packet in self.trace.packet:
            self._declare(packet)
            if not packet.HasField("track_event"):
                continue
            event, track = packet.track_event, packet.track_event.track_uuid
            assert packet.timestamp >= latest[track]
            latest[track] = packet.timestamp
            where = self._place(track)
            if event.type == pb.TrackEvent.TYPE_COUNTER:
                assert self.tracks[track].counter.unit == pb.CounterDescriptor.UNIT_SIZE_BYTES
                self.counters[where].append((packet.timestamp, event.counter_value))
            elif event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
                begun = self._named(packet) | {"depth": len(open_slices[track])}
                open_slices[track].append(begun)
                self.slices[where].append(begun)
            elif event.type == pb.TrackEvent.TYPE_SLICE_END:
                open_slices[track].pop()["end"] = packet.timestamp
            else:
                assert event.type == pb.TrackEvent.TYPE_INSTANT
                self.instants[where].append(self._named(packet))

    def _declare(self, packet: pb.TracePacket) -> None:
        if packet.HasField("track_descriptor"):
            described = packet.track_descriptor
            assert described.uuid not in self.tracks
            assert not described.parent_uuid or described.parent_uuid in self.tracks
            self.tracks[described.uuid] = described
        interned = packet.interned_data
        self.texts["event"].update({entry.iid: entry.name for entry in interned.event_names})
        self.texts["name"].update({entry.iid: entry.name for entry in interned.debug_annotation_names})
        self.texts["text"].update({entry.iid: entry.str.decode() for entry in interned.debug_annotation_string_values})

    def _place(self, track: int) -> tuple[str, str]:
        device = self.tracks[track]
        while self.tracks[device.parent_uuid].parent_uuid:
            device = self.tracks[device.parent_uuid]
        return device.name, self.tracks[track].name

    def _named(self, packet: pb.TracePacket) -> Json:
        arguments: Json = {}
        for annotation in packet.track_event.debug_annotations:
            value: Any = annotation.uint_value
            if annotation.HasField("string_value_iid"):
                value = self.texts["text"][annotation.string_value_iid]
            arguments[self.texts["name"][annotation.name_iid]] = value
        return {
            "name": self.texts["event"][packet.track_event.name_iid],
            "begin": packet.timestamp,
            "arguments": arguments,
        }


Timelines = Callable[[pathlib.Path], Timeline]


@pytest.fixture(scope="module")
def timeline_of(tmp_path_factory: pytest.TempPathFactory) -> Timelines:
    """Reads each recording once."""
    return functools.cache(
        lambda recording: Timeline(convert(recording, tmp_path_factory.mktemp("timeline") / "run.pftrace"))
    )


def allocations(recording: pathlib.Path, folder: pathlib.Path) -> list[Json]:
    out = convert(recording, folder / "allocations.parquet", "--table", "allocations")
    rows: list[Json] = pyarrow.parquet.read_table(out).to_pylist()
    return rows


@every_recording
def test_perfetto_shows_the_peaks_and_steps_of_the_report(recording: pathlib.Path, timeline_of: Timelines) -> None:
    timeline = timeline_of(recording)
    for device in report(recording)["devices"]:
        origin = device["begin_unix_ns"] or 0
        for total in TOTALS:
            values = timeline.counters[name_of(device), total]
            assert max(value for _, value in values) == device["peak"][f"{total}_bytes"]
        steps = timeline.slices[name_of(device), "steps"]
        assert [
            (step["name"], step["begin"] - origin, step["arguments"]["peak_requested_bytes"]) for step in steps
        ] == [(step["name"], step["begin_ns"], step["peak_requested_bytes"]) for step in device["steps"]["items"]]
        moments = timeline.instants[name_of(device), "moments"]
        assert sum(moment["name"] == "out of memory" for moment in moments) == device["oom_count"]
        peaks = [moment for moment in moments if moment["name"] == "peak"]
        assert [peak["arguments"]["requested_bytes"] for peak in peaks] == [device["peak"]["requested_bytes"]] * len(
            peaks
        )
        assert len(peaks) == (1 if device["events"] else 0)


@every_recording
def test_perfetto_shows_the_life_of_every_block_that_it_says(
    recording: pathlib.Path, timeline_of: Timelines, tmp_path: pathlib.Path
) -> None:
    timeline = timeline_of(recording)
    rows = allocations(recording, tmp_path)
    for device in report(recording)["devices"]:
        device_name = name_of(device)
        own = [row for row in rows if (row["device"], row["device_kind"]) == (device["device"], device["kind"])]
        lanes = {place[1]: slices for place, slices in timeline.slices.items() if place[0] == device_name}
        drawn = [each for lane, slices in lanes.items() if lane.startswith("lane ") for each in slices]
        assert all(each["depth"] == 0 for each in drawn)
        smallest = min((each["arguments"]["block_bytes"] for each in drawn), default=0)
        expected = [row for row in own if row["block_bytes"] >= smallest]
        assert sorted(
            (
                each["arguments"]["address"],
                each["arguments"].get("alloc_event", -1),
                each["arguments"]["requested_bytes"],
                each["name"],
                "end" in each,
            )
            for each in drawn
        ) == sorted(
            (
                hex(row["address"]),
                -1 if row["alloc_event"] is None else row["alloc_event"],
                row["requested_bytes"],
                row["name"],
                row["free_event"] is not None,
            )
            for row in expected
        )
        (title,) = {
            track.name
            for track in timeline.tracks.values()
            if track.name.startswith("blocks ") and timeline.tracks[track.parent_uuid].name == device_name
        }
        said = [int(number.replace(",", "")) for number in re.findall(r"[(;] ?([\d,]+)", title)]
        assert sum(said) == len(own)
        assert said[0] == len(drawn)
    stacks = {row["stack"] for row in rows if row["stack"]}
    for slices in timeline.slices.values():
        assert {
            each["arguments"]["stack"].replace("\n", ";") for each in slices if "stack" in each["arguments"]
        } <= stacks


@every_recording
def test_chromes_trace_is_perfettos(recording: pathlib.Path, timeline_of: Timelines, tmp_path: pathlib.Path) -> None:
    document = json.loads(
        convert(recording, tmp_path / "run.trace.json").read_text(encoding="utf-8"), parse_float=decimal.Decimal
    )
    timeline = timeline_of(recording)
    begin = document["otherData"]["begin_unix_ns"] or 0
    events = document["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    counters: dict[tuple[str, str], list[tuple[int, int]]] = collections.defaultdict(list)
    begins: list[tuple[int, str]] = []
    for event in events:
        if event["ph"] == "M":
            continue
        time = begin + int(event["ts"] * 1000)
        if event["ph"] == "C":
            counters[processes[event["pid"]], event["name"]].append((time, event["args"]["bytes"]))
        if event["ph"] == "B":
            begins.append((time, event["name"]))
    assert counters == timeline.counters
    assert sorted(begins) == sorted((each["begin"], each["name"]) for all_ in timeline.slices.values() for each in all_)
    ends = sum(event["ph"] == "E" for event in events)
    assert ends == sum("end" in each for slices in timeline.slices.values() for each in slices)


# Profiles


def growth_of(device: Json) -> int:
    steps = device["steps"]
    assert len(steps["items"]) >= steps["warmup"] + 2
    last, first = steps["items"][-1], steps["items"][steps["warmup"]]
    return int(last["end_requested_bytes"]) - int(first["end_requested_bytes"])


def end_of(recording: pathlib.Path, device: Json) -> int:
    if not device["events"]:
        return int(device["peak"]["requested_bytes"])
    at = report(recording, "--device", str(device["device"]), "--at", f"event:{device['events'] - 1}")["at"]
    return int(at["requested_bytes"])


def pprof(path: pathlib.Path, *words: str) -> str:
    done = subprocess.run(
        [*GO, "-unit=b", *words, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PPROF_TMPDIR": str(path.parent)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pprof_total(path: pathlib.Path, sample: str) -> int:
    shown = pprof(path, "-top", "-nodefraction=0", f"-sample_index={sample}")
    found = re.search(r"of (-?\d+)B? total", shown)
    assert found, shown
    return int(found[1])


@pytest.mark.parametrize("recording", [LEAK, RANK, MIDDLE, NO_CLOCK], ids=lambda path: path.name)
def test_pprof_shows_the_totals_of_the_report(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    profile = convert(recording, tmp_path / "run.pb.gz")
    devices = [device for device in report(recording)["devices"] if device["kind"] == "gpu"]
    assert len(devices) == len(report(recording)["devices"])
    assert pprof_total(profile, "peak_space") == sum(device["peak"]["requested_bytes"] for device in devices)
    assert pprof_total(profile, "end_space") == sum(end_of(recording, device) for device in devices)


def test_pprof_shows_the_leaking_line(tmp_path: pathlib.Path) -> None:
    profile = convert(LEAK, tmp_path / "run.pb.gz")
    document = report(LEAK)
    assert pprof_total(profile, "growth_space") == growth_of(document)
    leaks = [growth for growth in document["growth"] if growth["kind"] == "leak"]
    assert leaks
    growing = pprof(profile, "-tags", "-sample_index=growth_space")
    # A leak of several lines is named by the first.
    assert all(leak["site"].partition(" and ")[0] in growing for leak in leaks)
    assert "growth is from the end of step:" in pprof(profile, "-comments")
    # The stack is innermost first in the report, and pprof's -traces prints it so.
    frames = [frame["function"] for frame in leaks[0]["stack"]]
    traces = pprof(profile, "-traces", "-sample_index=growth_space")
    assert re.search(r"\n *-?\d+B +" + r"\n +".join(map(re.escape, frames)) + r"\n", traces), traces


@pytest.mark.parametrize("recording", [LEAK, RANK, MIDDLE], ids=lambda path: path.name)
def test_pprof_labels_are_the_holders_of_the_report(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shown = pprof(convert(recording, tmp_path / "run.pb.gz"), "-tags", "-sample_index=peak_space")
    section = next(part for part in shown.split("\n\n") if part.lstrip().startswith("holder:"))
    labels = {match[2]: int(match[1]) for match in re.finditer(r"^ *(\d+)\.0B \([^)]*\): (.*)$", section, re.MULTILINE)}
    (breakdown,) = [each for each in report(recording)["at_peak"]["breakdowns"] if each["by"] == "user_frame"]
    expected = {holder["name"]: holder["requested_bytes"] for holder in breakdown["holders"]}
    # Stacks that hold nothing at the peak are there for the other sample types.
    assert {label: number for label, number in labels.items() if number} == expected


def folded(path: pathlib.Path) -> list[tuple[list[str], int]]:
    lines = [line.rsplit(" ", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(stack.split(";"), int(number)) for stack, number in lines]


@every_recording
def test_folded_stacks_add_up_to_the_peak(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    stacks = folded(convert(recording, tmp_path / "run.folded"))
    devices = report(recording)["devices"]
    assert stacks[-1][1] == 0
    assert all(number > 0 for _, number in stacks[:-1])
    assert sum(number for _, number in stacks) == sum(device["peak"]["requested_bytes"] for device in devices)
    if len(devices) > 1:
        assert {stack[0] for stack, _ in stacks[:-1]} <= {name_of(device) for device in devices}


@every_recording
def test_speedscopes_schema_allows_its_file(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    document = json.loads(convert(recording, tmp_path / "run.speedscope.json").read_text(encoding="utf-8"))
    schema = pathlib.Path(sys.prefix) / "npm/node_modules/speedscope/dist/release/file-format-schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    frames = len(document["shared"]["frames"])
    by_name = {profile["name"]: profile for profile in document["profiles"]}
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"]
        assert all(0 <= frame < frames for sample in profile["samples"] for frame in sample)
    for device in report(recording)["devices"]:
        assert by_name[f"{name_of(device)}: peak"]["endValue"] == device["peak"]["requested_bytes"]
        if device["kind"] == "gpu":  # --device selects GPUs only
            assert by_name[f"{name_of(device)}: end"]["endValue"] == end_of(recording, device)


def test_speedscope_has_the_stacks_of_the_report(tmp_path: pathlib.Path) -> None:
    document = json.loads(convert(LEAK, tmp_path / "run.speedscope.json").read_text(encoding="utf-8"))
    frames = document["shared"]["frames"]
    profile = document["profiles"][0]
    found: dict[tuple[Any, ...], int] = collections.Counter()
    for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
        stack = tuple((frames[i]["name"], frames[i].get("file", ""), frames[i].get("line", 0)) for i in sample)
        found[stack] += weight
    (breakdown,) = [each for each in report(LEAK)["at_peak"]["breakdowns"] if each["by"] == "stack"]
    expected = {
        tuple(
            (frame["function"], frame["file"] or "", frame["line"] or 0) for frame in reversed(holder["stack"])
        ): holder["requested_bytes"]
        for holder in breakdown["holders"]
        if holder["stack"]
    }
    assert expected
    assert {stack: number for stack, number in found.items() if len(stack) > 1} == expected


# Tables

TABLES = ["runs", "devices", "steps", "holders", "findings"]


def query(sql: str) -> duckdb.DuckDBPyRelation:
    relation = duckdb.sql(sql)
    assert relation is not None  # a SELECT has a result
    return relation


def rows_of(path: pathlib.Path) -> list[Json]:
    """As PyArrow and DuckDB read the file, which must be the same."""
    table = pyarrow.parquet.read_table(path)
    quoted = str(path).replace("'", "''")
    relation = query(f"SELECT * FROM read_parquet('{quoted}')")
    assert relation.columns == table.column_names
    rows: list[Json] = table.to_pylist()
    assert [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()] == rows
    return rows


@every_recording
def test_parquet_has_the_values_of_the_report(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = convert(recording, tmp_path / "run.parquet")
    assert sorted(file.name for file in folder.iterdir()) == sorted(f"{name}.parquet" for name in TABLES)
    document = report(recording)
    tables = {name: rows_of(folder / f"{name}.parquet") for name in TABLES}
    (run,) = tables["runs"]
    for name in ("path", "format", "file_bytes", "truncated_at_byte", "clock", "has_stacks"):
        assert run[name] == document[name]
    assert (run["device"], run["device_kind"]) == (document["device"], document["kind"])
    for row, device in zip(tables["devices"], document["devices"], strict=True):
        assert all(row[f"{total}_bytes"] == device["peak"][f"{total}_bytes"] for total in TOTALS)
        assert {name: row[name] for name in ("events", "allocations", "frees", "oom_count", "duration_ns")} == {
            name: device[name] for name in ("events", "allocations", "frees", "oom_count", "duration_ns")
        }
    for device in document["devices"]:
        own = {
            name: [row for row in rows if (row["device"], row["device_kind"]) == (device["device"], device["kind"])]
            for name, rows in tables.items()
        }
        assert [row["end_requested_bytes"] for row in own["steps"]] == [
            step["end_requested_bytes"] for step in device["steps"]["items"]
        ]
        assert [(row["kind"], row["bytes"], row["title"]) for row in own["findings"]] == [
            (finding["kind"], finding["bytes"], finding["title"]) for finding in device["findings"]
        ]
        expected = [
            (breakdown["by"], holder["name"], holder["requested_bytes"], holder["count"], holder["before_recording"])
            for breakdown in device["at_peak"]["breakdowns"]
            for holder in breakdown["holders"]
        ]
        assert [
            (row["by"], row["name"], row["requested_bytes"], row["count"], row["before_recording"])
            for row in own["holders"]
            if row["at"] == "peak"
        ] == expected


@every_recording
def test_parquet_events_are_those_of_the_json_lines(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = convert(recording, tmp_path / "run.parquet", "--events")
    rows = rows_of(folder / "events.parquet")
    with convert(recording, tmp_path / "run.jsonl").open(encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert [
        {**row, "address": hex(row["address"]), "stack": row["stack"] or ""} for row in rows
    ] == [
        {
            "device": line["device"], "device_kind": line["device_kind"], "event": line["index"], "time_ns": row["time_ns"],
            "time_unix_ns": line["time_ns"], "action": line["action"], "address": line["address"],
            "size_bytes": line["size_bytes"], "stream": line["stream"],
            "pool": ":".join(map(str, line["pool"])) if line["pool"] else None, "compile_id": line["compile_id"],
            "user_metadata": line["user_metadata"], "category": line["category"], "stack": ";".join(line["stack"]),
        }
        for line, row in zip(lines, rows, strict=True)
    ]  # fmt: skip
    assert len(rows_of(folder / "allocations.parquet")) == len(allocations(recording, tmp_path))


def test_large_tables_have_several_row_groups(tmp_path: pathlib.Path) -> None:
    """More rows than a batch has, with stacks whose numbers differ between the groups."""
    count = 300_000
    source = tmp_path / "run.csv"
    head = (
        "device,device_kind,index,time_ns,action,address,size_bytes,stream,pool,compile_id,user_metadata,stack,category"
    )
    with source.open("w", newline="") as file:
        file.write(head + "\r\n")
        for i in range(count):
            stack = f"a.py:{i % 3 if i < 262_144 else 1000 + i % 5} f;b.py:1 g" if i % 7 else ""
            file.write(f"0,gpu,{i},{i},alloc,{0x1000 + 512 * i:#x},512,0,0:0,,,{stack},\r\n")
    out = convert(source, tmp_path / "events.parquet", "--table", "events")
    metadata = pyarrow.parquet.ParquetFile(out).metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (count, 2)
    assert query(
        f"SELECT count(*), count(stack), count(DISTINCT stack), sum(size_bytes), max(event) FROM '{out}'"
    ).fetchall() == [(count, count - len(range(0, count, 7)), 8, 512 * count, count - 1)]
    assert pyarrow.parquet.read_table(out)["stack"][262_145].as_py() == f"a.py:{1000 + 262_145 % 5} f;b.py:1 g"


# Files


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_an_export_replaces_an_export_and_nothing_else(extension: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / f"run{extension}"
    first = convert(LEAK, out).read_bytes()
    assert convert(RANK, out).read_bytes() != first
    foreign = gzip.compress(b"x" * 400) if extension == ".pb.gz" else first[20:-20]
    out.write_bytes(foreign)
    refused = vram("convert", LEAK, out, code=2)
    assert "was not written by vram" in refused.stderr
    assert "--force" in refused.stderr
    assert out.read_bytes() == foreign
    convert(LEAK, out, "--force")
    assert out.read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == [out.name]


def test_collapsed_stacks_of_another_program_stay(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "run.folded"
    out.write_text("main;f 12\n")
    assert "was not written by vram" in vram("convert", LEAK, out, code=2).stderr
    assert out.read_text() == "main;f 12\n"


def test_a_folder_of_tables_keeps_foreign_files(tmp_path: pathlib.Path) -> None:
    folder = convert(LEAK, tmp_path / "run.parquet")
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {file.name for file in convert(RANK, folder).iterdir()} == set(before)
    now = {file.name: file.read_bytes() for file in folder.iterdir()}
    (folder / "steps.parquet").write_bytes(b"PAR1 of another program PAR1")
    refused = vram("convert", LEAK, folder, code=2)
    assert "steps.parquet was not written by vram" in refused.stderr
    left = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert left == {**now, "steps.parquet": b"PAR1 of another program PAR1"}


@pytest.mark.parametrize("name", ["perfetto", "chrome", "pprof", "folded", "speedscope"])
def test_a_format_may_be_named(name: str, tmp_path: pathlib.Path) -> None:
    extension = dict(zip(["perfetto", "chrome", "pprof", "folded", "speedscope"], EXTENSIONS, strict=True))[name]
    expected = convert(RANK, tmp_path / f"run{extension}").read_bytes()
    assert convert(RANK, tmp_path / "other", "--to", name).read_bytes() == expected
    piped = subprocess.run([BINARY, "convert", RANK, "-", "--to", name], capture_output=True, check=True, timeout=120)
    assert piped.stdout == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run.xyz"], "cannot determine the format"),
        (["run.csv", "--table", "steps"], "--table needs a Parquet file, found the format csv"),
        (["run.jsonl", "--escape-formulas"], "--escape-formulas needs CSV, found the format jsonl"),
        (["run.csv", "--events"], "--events needs a folder of Parquet files, found the format csv"),
        (["run.parquet", "--table", "steps", "--events"], "found --table steps"),
        (["run.parquet", "--table", "blocks"], "--table: expected"),
        (["-", "--to", "parquet"], "name a folder, or one table"),
    ],
)
def test_wrong_requests_are_explained_and_leave_nothing(words: list[str], said: str, tmp_path: pathlib.Path) -> None:
    place = [words[0] if words[0] == "-" else str(tmp_path / words[0]), *words[1:]]
    assert said in vram("convert", LEAK, *place, code=2).stderr
    assert list(tmp_path.iterdir()) == []

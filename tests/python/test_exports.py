"""CSV and JSON lines as other programs read them: both agree with each other and with the recording.

VRAM_BINARY names the program under test.
"""

import csv
import json
import os
import pathlib
import subprocess
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("VRAM_BINARY", str(ROOT / "build/release/src/vram"))
SAMPLE = ROOT / "tests/data/vtrace/sample.v1.vtrace"
DEMOS = sorted((ROOT / "demo").glob("*.pickle.xz"))
COLUMNS = [
    "device",
    "device_kind",
    "index",
    "time_ns",
    "action",
    "address",
    "size_bytes",
    "stream",
    "pool",
    "compile_id",
    "user_metadata",
    "stack",
    "category",
]

Event = dict[str, Any]


def convert(source: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
    subprocess.run([BINARY, "convert", str(source), str(target)], check=True, timeout=120)
    return target


def from_jsonl(path: pathlib.Path) -> list[Event]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def from_csv(path: pathlib.Path) -> list[Event]:
    with path.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, strict=True)
        assert reader.fieldnames == COLUMNS
        return [event_of(row) for row in reader]


def event_of(row: dict[str, str]) -> Event:
    return {
        **row,
        "device": int(row["device"]),
        "index": int(row["index"]),
        "time_ns": int(row["time_ns"]) if row["time_ns"] else None,
        "size_bytes": int(row["size_bytes"]),
        "stream": int(row["stream"]),
        "pool": [int(part) for part in row["pool"].split(":")] if row["pool"] else None,
        "compile_id": row["compile_id"] or None,
        "user_metadata": row["user_metadata"] or None,
        "category": row["category"] or None,
        "stack": row["stack"].split(";") if row["stack"] else [],
    }


@pytest.mark.parametrize("recording", [SAMPLE, *DEMOS], ids=lambda path: path.name)
def test_both_forms_say_the_same(recording: pathlib.Path, tmp_path: pathlib.Path) -> None:
    lines = from_jsonl(convert(recording, tmp_path / "out.jsonl"))
    assert lines
    assert lines == from_csv(convert(recording, tmp_path / "out.csv"))
    assert all(set(line) == set(COLUMNS) for line in lines)


def test_the_sample_reads_as_it_was_made(tmp_path: pathlib.Path) -> None:
    lines = from_jsonl(convert(SAMPLE, tmp_path / "out.jsonl"))
    assert len(lines) == 16
    assert lines[2] == {
        "device": 1,
        "device_kind": "gpu",
        "index": 2,
        "time_ns": 1795248641678830000,
        "action": "alloc",
        "address": "0x7f1ca0000400",
        "size_bytes": 512,
        "stream": 0xFFFF_FFFF_FFFF_FF00,
        "pool": [0, 7],
        "compile_id": "0/1",
        "user_metadata": "line\nbreak",
        "category": None,
        "stack": ['/home/ada/train "v2", néw.py:12 forward'],
    }
    assert lines[6]["pool"] is None
    assert [line["device_kind"] for line in lines[13:]] == ["host"] * 3


def test_converting_to_vtrace_and_back_changes_no_event(tmp_path: pathlib.Path) -> None:
    direct = convert(SAMPLE, tmp_path / "direct.jsonl").read_bytes()
    copy = convert(SAMPLE, tmp_path / "copy.vtrace")
    assert convert(copy, tmp_path / "again.jsonl").read_bytes() == direct

"""Sinks of measurements: callbacks, TensorBoard's writers, JSON lines."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import vram
from vram import _sizes
from vram.monitoring._measurement import DeviceUse, Measurement

USE = DeviceUse(1, 600, 1000, 100, 0, 900, 1000)
MEASUREMENT = Measurement("step", 7, 1_700_000_000_123_456_789, 2_000_000_000, devices=(USE,))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1536, "1.5 KiB"),
        (10 << 20, "10 MiB"),
        (25_000_000_000, "23.3 GiB"),
    ],
)
def test_sizes_have_three_digits(size: int, text: str) -> None:
    assert _sizes.format_size(size) == text


def test_a_sink_that_fails_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Measurement] = []

    def broken(measurement: Measurement) -> None:
        raise OSError(f"full at {measurement.name}")

    sinks = [vram.add_sink(broken), vram.add_sink(seen.append)]
    with caplog.at_level(logging.WARNING, "vram"):
        for _ in range(3):
            with vram.monitor("x"):
                pass
    for sink in sinks:
        vram.remove_sink(sink)
    assert len(seen) == 3
    assert len(caplog.messages) == 1
    assert "OSError: full at x" in caplog.messages[0]


def test_sinks_are_callables_that_were_added() -> None:
    with pytest.raises(TypeError, match="can't be called"):
        vram.add_sink(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="was not added as a sink"):
        vram.remove_sink(print)


def test_scalars_go_to_a_writer_of_the_users() -> None:
    written: list[tuple[str, float, int]] = []

    class Writer:
        def add_scalar(self, tag: str, value: float, step: int) -> None:
            written.append((tag, value, step))

    vram.TensorBoard(Writer(), prefix="gpu")(MEASUREMENT)
    assert written == [
        ("gpu/step/seconds", 2.0, 7),
        ("gpu/step/gpu1/allocated_bytes", 600, 7),
        ("gpu/step/gpu1/reserved_bytes", 1000, 7),
        ("gpu/step/gpu1/peak_bytes", 900, 7),
        ("gpu/step/gpu1/fragmentation", 0.4, 7),
    ]
    with pytest.raises(TypeError, match="found object"):
        vram.TensorBoard(object())


def lines_of(*paths: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_json_lines_are_as_documented(tmp_path: Path) -> None:
    path = tmp_path / "vram.jsonl"
    sink = vram.JsonLines(path)
    sink(MEASUREMENT)
    sink(Measurement("bare", 1, 0, 5, error="ValueError", unknown_reason="no GPU"))
    full, bare = lines_of(path)
    assert full.pop("host.name")
    assert full == {
        "@timestamp": "2023-11-14T22:13:22.123456Z",
        "event.dataset": "vram.monitor",
        "event.action": "step",
        "event.duration": 2_000_000_000,
        "event.outcome": "success",
        "error.type": None,
        "process.pid": os.getpid(),
        "vram": {
            "schema": "vram.monitor/1",
            "call": 7,
            "is_synchronized": False,
            "device": 1,
            "allocated_bytes": 600,
            "reserved_bytes": 1000,
            "allocated_delta_bytes": 100,
            "reserved_delta_bytes": 0,
            "peak_allocated_bytes": 900,
            "peak_reserved_bytes": 1000,
            "process_bytes": None,
            "process_delta_bytes": None,
            "device_used_bytes": None,
            "device_used_delta_bytes": None,
            "num_alloc_retries": None,
            "num_ooms": None,
            "num_device_alloc": None,
            "num_device_free": None,
            "fragmentation": 0.4,
        },
    }
    assert (bare["event.outcome"], bare["error.type"], bare["vram"]["allocated_bytes"]) == (
        "failure",
        "ValueError",
        None,
    )
    assert path.stat().st_mode & 0o777 & ~0o644 == 0
    sink.close()


def test_lines_of_threads_and_forks_stay_whole_through_rotations(tmp_path: Path) -> None:
    path = tmp_path / "vram.jsonl"
    sink = vram.JsonLines(path, max_bytes=20_000, backups=200)
    forked = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            write(sink, f"process {number}")
            os._exit(0)
        forked.append(pid)
    threads = [threading.Thread(target=write, args=(sink, f"thread {number}")) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert [os.waitpid(pid, 0)[1] for pid in forked] == [0] * 4
    files = list(tmp_path.iterdir())
    assert len(files) > 10
    assert max(file.stat().st_size for file in files) < 25_000  # six writers may be past the look at the size
    found = sorted((line["event.action"], line["vram"]["call"]) for line in lines_of(*files))
    writers = [f"process {number}" for number in range(4)] + ["thread 0", "thread 1"]
    assert found == [(writer, call) for writer in writers for call in range(200)]
    sink.close()


def write(sink: vram.JsonLines, name: str) -> None:
    for call in range(200):
        sink(Measurement(name, call, 0, 0, devices=(USE,)))


def test_backups_are_counted_from_0(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected backups to be at least 0, got -1"):
        vram.JsonLines(tmp_path / "vram.jsonl", backups=-1)
    assert list(tmp_path.iterdir()) == []


def test_only_so_many_backups_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "vram.jsonl"
    sink = vram.JsonLines(path, max_bytes=1000, backups=1)
    for call in range(8):
        sink(Measurement("x", call, 0, 0, devices=(USE,)))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["vram.jsonl", "vram.jsonl.1"]
    kept = [line["vram"]["call"] for line in lines_of(tmp_path / "vram.jsonl.1", path)]
    assert kept == list(range(8 - len(kept), 8))
    path.unlink()  # another program deletes it
    sink(MEASUREMENT)
    assert lines_of(path)[0]["event.action"] == "step"
    sink.close()


def test_after_a_torn_write_the_next_line_is_one_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "vram.jsonl"
    sink = vram.JsonLines(path)
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, line: real(file, line[:20]))
    sink(MEASUREMENT)
    monkeypatch.setattr(os, "write", real)
    sink(MEASUREMENT)
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 20
    assert json.loads(whole)["event.action"] == "step"
    sink.close()

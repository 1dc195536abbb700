"""Measurements as JSON lines, for Filebeat, Logstash, Vector and similar programs."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from vram._sizes import parse_size
from vram.monitoring._measurement import DeviceUse, Measurement

SCHEMA = "vram.monitor/1"


def objects_of(measurement: Measurement) -> list[dict[str, Any]]:
    """Return an object for each device (searches over arrays of objects mix their fields up), or one without figures if there is none."""
    ended_ns = measurement.started_ns + measurement.duration_ns
    ended = datetime.fromtimestamp(ended_ns // 1_000_000_000, tz=timezone.utc)
    common = {
        "@timestamp": f"{ended:%Y-%m-%dT%H:%M:%S}.{ended_ns % 1_000_000_000 // 1000:06d}Z",
        "event.dataset": "vram.monitor",
        "event.action": measurement.name,
        "event.duration": measurement.duration_ns,
        "event.outcome": "success" if measurement.error is None else "failure",
        "error.type": measurement.error,
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    shared = {"schema": SCHEMA, "call": measurement.call, "is_synchronized": measurement.is_synchronized}
    return [{**common, "vram": {**shared, **_figures(use)}} for use in measurement.devices or [None]]


def _figures(use: DeviceUse | None) -> dict[str, Any]:
    return {name: getattr(use, name, None) for name in (*(each.name for each in fields(DeviceUse)), "fragmentation")}


class JsonLines:
    """A sink that appends each measurement to a file, one JSON object and line for each device; docs/look.md has the fields.

    Sizes are integers whose names end in ``_bytes``, unknown ones null; ``event.duration`` is nanoseconds, as in ECS. A line is one
    write to the end of the file, so threads, forks and other processes may share it. A file that would exceed ``max_bytes``
    ("100MiB", or bytes; None: no limit) becomes ``path.1``, that one ``path.2``, and so on up to ``backups``.

    Raises:
        OSError: the folder does not exist.

    >>> import json, os, tempfile, vram
    >>> path = os.path.join(tempfile.mkdtemp(), "vram.jsonl")
    >>> sink = vram.add_sink(vram.JsonLines(path))
    >>> with vram.monitor("load"):
    ...     pass
    >>> vram.remove_sink(sink)
    >>> json.loads(open(path).read())["event.action"]
    'load'
    """

    def __init__(self, path: str | os.PathLike[str], max_bytes: int | str | None = "100MiB", backups: int = 3) -> None:
        self._path = Path(path)
        self._max_bytes = None if max_bytes is None else parse_size(max_bytes)
        self._backups = backups
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()  # of the descriptor: it changes when the file is rotated
        self._file = self._open()
        self._is_torn = False  # the last write stopped within a line

    def __call__(self, measurement: Measurement) -> None:
        if os.getpid() != self._pid:  # forked: the lock may have been held by a thread that is not here
            os.close(self._file)
            self._renew()
        with self._lock:
            for line in objects_of(measurement):
                self._write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file; remove the sink first."""
        with self._lock:
            os.close(self._file)

    def _write(self, line: bytes) -> None:
        self._follow()
        if self._max_bytes is not None and 0 < os.fstat(self._file).st_size > self._max_bytes - len(line):
            self._rotate()
        if self._is_torn:
            line = b"\n" + line
        written = os.write(self._file, line)
        self._is_torn = written < len(line)  # a full disk: the next line begins on one of its own

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _follow(self) -> None:
        """Another process may have rotated the file, or somebody deleted it."""
        if not self._is_current():
            os.close(self._file)
            self._file = self._open()

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        """Only one of those who want to: the lock is on the file itself, and who comes later finds another there."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if self._is_current():
            for number in range(self._backups, 0, -1):
                source = self._numbered(number - 1)
                if source.exists():
                    source.replace(self._numbered(number))
            if self._backups == 0:
                self._path.unlink()
        os.close(self._file)  # and with it the lock
        self._file = self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

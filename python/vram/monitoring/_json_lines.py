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

from vram._arguments import require_integers
from vram._sizes import parse_size
from vram.monitoring._measurement import DeviceUse, Measurement

SCHEMA = "vram.monitor/1"


def objects_of(measurement: Measurement) -> list[dict[str, Any]]:
    """Return one object per device, because searches over arrays of objects mix their fields; or one without figures."""
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
    """A sink that appends each measurement to a file, one JSON object per line and device; see docs/measure.md.

    Sizes are integers whose names end in ``_bytes``, unknown ones are null; ``event.duration`` is nanoseconds, as in
    ECS. Each line is appended by one write, so threads, forked and other processes may share the file.

    Args:
        path: The file; its folder must exist.
        max_bytes: Before the file exceeds this size ("100MiB", or bytes), it is renamed to ``path.1``, that to
            ``path.2``, and so on. None: no limit.
        backups: Number of renamed files to keep.

    Raises:
        ValueError: `max_bytes` is not a size, or `backups` is below 0.
        OSError: The file cannot be opened.

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
        require_integers(0, backups=backups)
        self._path = Path(path)
        self._max_bytes = None if max_bytes is None else parse_size(max_bytes)
        self._backups = backups
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()  # protects the descriptor, which changes when the file is rotated
        self._file = self._open()
        self._is_torn = False  # the last write stopped within a line

    def __call__(self, measurement: Measurement) -> None:
        if os.getpid() != self._pid:  # forked: a thread that does not exist here may have held the lock
            os.close(self._file)
            self._renew()
        with self._lock:
            for line in objects_of(measurement):
                self._write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Close the file. Remove the sink first."""
        with self._lock:
            os.close(self._file)

    def _write(self, line: bytes) -> None:
        self._follow()
        if self._max_bytes is not None and 0 < os.fstat(self._file).st_size > self._max_bytes - len(line):
            self._rotate()
        if self._is_torn:
            line = b"\n" + line
        written = os.write(self._file, line)
        self._is_torn = written < len(line)  # a full disk: the next write begins with a line break

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _follow(self) -> None:
        """Open the file again if another process has rotated it, or if it was deleted."""
        if not self._is_current():
            os.close(self._file)
            self._file = self._open()

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        """Rotate the file once, even if several processes try: the lock is on the file, and a later one finds a new file."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if self._is_current():
            for number in range(self._backups, 0, -1):
                source = self._numbered(number - 1)
                if source.exists():
                    source.replace(self._numbered(number))
            if self._backups == 0:
                self._path.unlink()
        os.close(self._file)  # releases the lock, too
        self._file = self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

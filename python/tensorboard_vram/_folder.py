"""The recordings of a log directory. No path that a browser sends leads out of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RECORDING = re.compile(r"\.(vtrace|pickle|pkl)(\.(gz|xz|zst))?$")
_MAX_FILES = 100_000  # that are looked at
_MAX_RECORDINGS = 1000


@dataclass(frozen=True)
class Recording:
    """A file of the log directory: its path below it, and what changes if it is written."""

    name: str
    path: Path
    bytes: int
    mtime_ns: int


class LogFolder:
    """A log directory; None, or one that is not on this machine, is empty."""

    def __init__(self, logdir: str | None) -> None:
        self.name = logdir or ""
        self._root = Path(os.path.realpath(os.path.expanduser(logdir))) if logdir else None

    def recordings(self) -> tuple[list[Recording], bool]:
        """Return the recordings, the latest first, and whether a limit left some out."""
        found: list[Recording] = []
        is_limited = False
        for count, file in enumerate(self._files()):
            if count >= _MAX_FILES:
                is_limited = True
                break
            recording = self.find(file)
            if recording is not None:
                found.append(recording)
        found.sort(key=lambda recording: (-recording.mtime_ns, recording.name))
        return found[:_MAX_RECORDINGS], is_limited or len(found) > _MAX_RECORDINGS

    def has_recordings(self) -> bool:
        """Return whether there is a recording."""
        files = (file for _, file in zip(range(_MAX_FILES), self._files()))
        return any(self.find(file) is not None for file in files)

    def find(self, name: str) -> Recording | None:
        """Return the recording with a path below the directory; None: there is none, or it leads out of the directory."""
        if self._root is None or not _RECORDING.search(name):
            return None
        try:
            path = (self._root / name).resolve(strict=True)
            found = path.stat()
        except (OSError, ValueError, RuntimeError):  # missing; a null byte; a loop of symbolic links
            return None
        if not path.is_relative_to(self._root) or not stat.S_ISREG(found.st_mode):
            return None
        return Recording(name, path, found.st_size, found.st_mtime_ns)

    def _files(self) -> Iterator[str]:
        """Yield the paths of all files below the directory. Linked folders are not entered."""
        if self._root is None:
            return
        for folder, folders, files in os.walk(self._root):
            folders.sort()
            for file in files:
                yield os.path.relpath(os.path.join(folder, file), self._root)

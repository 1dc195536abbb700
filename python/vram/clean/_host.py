"""The host's memory: how much is free, and what the system keeps of files."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class HostMemory:
    """In bytes, of the machine: a container's own limit is not looked at."""

    free_bytes: int  # nobody uses it for anything
    available_bytes: int  # free, or would be at once if it were asked for
    total_bytes: int
    file_bytes: int  # the page cache


def host_memory() -> HostMemory | None:
    """None: the system does not say."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
        return HostMemory(sizes["MemFree"], sizes["MemAvailable"], sizes["MemTotal"], sizes["Cached"])
    except (OSError, KeyError, ValueError, IndexError):
        return None


def cached_bytes(files: Sequence[Path]) -> int:
    """Of the files' contents, in the page cache."""
    return sum(_cached_bytes(file) for file in files)


def forget_files(files: Sequence[Path]) -> None:
    """What is not written to disk yet stays. OSError: a file can't be opened."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def forget_all_files() -> None:
    """Of the whole machine. OSError: only root may."""
    _DROP_CACHES.write_text("1")


def _cached_bytes(file: Path) -> int:
    size = file.stat().st_size
    if size == 0:
        return 0
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        first = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        del first  # or the mapping can't be closed
    return 0 if failed else min(size, sum(page & 1 for page in pages.raw) * mmap.PAGESIZE)

"""The host's memory: what is free, and what the page cache holds."""

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
    """The machine's memory in bytes, without a container's own limit."""

    free_bytes: int  # not used for anything
    available_bytes: int  # free, or available at once on request
    total_bytes: int
    file_bytes: int  # the page cache
    slab_bytes: int  # the kernel's caches that it can give back: directory entries and inodes


def host_memory() -> HostMemory | None:
    """Return the host's memory, or None if the system does not report it."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        sizes = {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}
        return HostMemory(
            sizes["MemFree"], sizes["MemAvailable"], sizes["MemTotal"], sizes["Cached"], sizes["SReclaimable"]
        )
    except (OSError, KeyError, ValueError, IndexError):
        return None


def cached_bytes(files: Sequence[Path]) -> int:
    """Return how many bytes of the files are in the page cache."""
    return sum(_cached_bytes(file) for file in files)


def forget_files(files: Sequence[Path]) -> None:
    """Drop the files' pages, except those that are not written to disk yet.

    Raises:
        OSError: A file cannot be opened.
    """
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def drop_caches() -> None:
    """Drop the pages of all files of the machine, and the kernel's directory entries and inodes.

    Writes what is not on disk yet first, because the kernel keeps such pages; that takes as long as the disks take.

    Raises:
        OSError: Only root may do this.
    """
    with open(_DROP_CACHES, "w") as file:  # before the writing, which is for nothing if it is refused
        os.sync()
        file.write("3")


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

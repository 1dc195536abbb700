"""The pages that have been made, as long as their recordings stay the same, up to a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from tensorboard_vram._folder import Recording

MAX_PAGE_BYTES = 64 << 20
MAX_CACHE_BYTES = 256 << 20
_MAX_RECORDING_BYTES = 64 << 30  # decompressed
_TIMEOUT = 120.0


class Pages:
    """Makes pages, one at a time: each may take all cores and as much memory as ``vram report``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[Path, int, int], bytes] = OrderedDict()  # the last used at the end

    def page_of(self, recording: Recording) -> bytes:
        """Return the page of a recording.

        Raises:
            RuntimeError: There is no page; the text says why.
        """
        from vram.reports import make_page

        key = (recording.path, recording.mtime_ns, recording.bytes)
        with self._lock:
            page = self._made.pop(key, None)
            if page is None:
                page = make_page(
                    recording.path, MAX_PAGE_BYTES, max_recording_bytes=_MAX_RECORDING_BYTES, timeout=_TIMEOUT
                )
            self._made[key] = page
            while sum(map(len, self._made.values())) > MAX_CACHE_BYTES:
                self._made.popitem(last=False)
            return page

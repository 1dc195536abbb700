"""Lists the segments of PyTorch's allocator when another process requests it, in the thread that updates the status page."""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from collections.abc import Iterable
from typing import Any

from vram._frameworks import used_frameworks
from vram._frameworks._torch import TorchFramework, is_private
from vram._library import library, sized
from vram._prototypes import (
    BLOCK_ALLOCATED,
    BLOCK_FREE,
    BLOCK_HELD,
    SEGMENT_EXPANDABLE,
    SEGMENT_PRIVATE,
    SEGMENT_SMALL,
    BoardBlock,
    BoardList,
    BoardSegment,
)

_MAX_SHARE = 0.01  # of the program's time
_STATES = {"inactive": BLOCK_FREE, "active_allocated": BLOCK_ALLOCATED}

_busy = threading.Lock()  # held by the thread that answers; others skip the request


class _Pause:
    until = 0.0  # of time.perf_counter()


def answer_segments_request() -> None:
    """Answer a pending request for the segments, if any and if PyTorch is in use. Raises nothing. Any thread.

    Listing them takes the allocator's lock, for some microseconds per hundred blocks, and waits for no device. A list
    that took some time is followed by a pause of a hundred times as long, in which requests stay pending.
    """
    torch = next((each for each in used_frameworks() if isinstance(each, TorchFramework)), None)
    if torch is None or library().vram_board_segments_request() == 0 or time.perf_counter() < _Pause.until:
        return
    if not _busy.acquire(blocking=False):
        return
    try:
        number = library().vram_board_segments_request()  # another thread may have answered since
        if number != 0:
            _answer(number, torch)
    finally:
        _busy.release()


def _answer(number: int, torch: TorchFramework) -> None:
    began = time.perf_counter()
    listed = None
    try:
        if torch.unavailable_reason():
            return
        segments = torch.all_segments()
        listed = None if segments is None else _list(segments)
    except Exception:  # the program will get the same error where it can handle it
        listed = None
    library().vram_board_answer_segments(number, None if listed is None else ctypes.byref(listed))
    now = time.perf_counter()
    _Pause.until = now + (now - began) / _MAX_SHARE


def _list(snapshot: Iterable[dict[str, Any]]) -> BoardList:
    rows = []
    words = array("Q")
    for segment in snapshot:
        blocks = segment["blocks"]
        for block in blocks:
            size, state = block["size"], _STATES.get(block["state"], BLOCK_HELD)
            words.extend((size, 0 if state == BLOCK_FREE else block.get("requested_size", 0), state))
        kinds = (
            (SEGMENT_SMALL if segment["segment_type"] == "small" else 0)
            | (SEGMENT_EXPANDABLE if segment.get("is_expandable") else 0)
            | (SEGMENT_PRIVATE if is_private(segment) else 0)
        )
        at = (segment["device"], segment["address"], segment["total_size"], segment["stream"])
        rows.append(BoardSegment(*at, kinds, len(blocks)))
    count = len(words) // 3
    return sized(
        BoardList,
        segments=(BoardSegment * len(rows))(*rows),
        segment_count=len(rows),
        segment_bytes=ctypes.sizeof(BoardSegment),
        blocks=(BoardBlock * count).from_buffer(words) if count else None,
        block_count=count,
        block_bytes=ctypes.sizeof(BoardBlock),
    )

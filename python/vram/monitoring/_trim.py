"""Gives memory back when another process requests it (``vram free``), in the thread that updates the status page."""

from __future__ import annotations

import ctypes
import threading

from vram._frameworks import Framework, used_frameworks
from vram._library import library, sized
from vram._prototypes import UNKNOWN, BoardTrimRequest

_busy = threading.Lock()  # held by the thread that gives memory back; others skip the request


def answer_trim_request() -> bool:
    """Answer a pending request for memory, if any. Returns whether caches were emptied. Raises nothing. Any thread.

    The frameworks' caches are emptied completely, however much is requested. Under PyTorch that is
    ``torch.cuda.empty_cache()`` (with the pool: its trim), which takes the allocator's lock, waits for the devices and
    would break the capture of a CUDA graph. While this thread captures one, the request therefore stays pending.
    """
    if _request().number == 0 or not _busy.acquire(blocking=False):
        return False
    try:
        request = _request()  # another thread may have answered since
        return request.number != 0 and _trim(request)
    finally:
        _busy.release()


def _request() -> BoardTrimRequest:
    request = sized(BoardTrimRequest)
    library().vram_board_request(ctypes.byref(request))
    return request


def _trim(request: BoardTrimRequest) -> bool:
    given: list[int | None]
    try:
        frameworks = used_frameworks()
        if any(framework.unavailable_reason() for framework in frameworks):
            return False
        given = [_empty(framework, None if request.device == UNKNOWN else request.device) for framework in frameworks]
    except Exception:  # the program will get the same error where it can handle it
        given = [None]
    known = [each for each in given if each is not None]
    library().vram_board_answer(request.number, sum(known) if known or not given else UNKNOWN)
    return True


def _empty(framework: Framework, device: int | None) -> int | None:
    """Empty the cache; return the bytes freed on the device (None: on all), or None if the framework does not know."""
    before = _reserved(framework, device)
    framework.release_cache()
    after = _reserved(framework, device)
    return None if before is None or after is None else max(before - after, 0)


def _reserved(framework: Framework, device: int | None) -> int | None:
    devices = [each for each in framework.devices() if device in (None, each)]
    figures = [framework.figures(each).reserved_bytes for each in devices]
    known = [each for each in figures if each is not None]
    return sum(known) if len(known) == len(figures) else None

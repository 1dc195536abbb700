"""Giving memory back because another process asks for it (``vram free``), in the thread that posts on the board."""

from __future__ import annotations

import ctypes
import threading

from vram._frameworks import Framework, used_frameworks
from vram.monitoring._native import UNKNOWN, BoardWish, library

_busy = threading.Lock()  # the thread that has it gives memory back; the others need not


def answer_trim_request() -> bool:
    """Answers a request, if there is one and this is the moment. True: caches were emptied. Raises nothing. Any thread.

    The frameworks' caches are emptied whole, however little is asked for. Under PyTorch that is ``torch.cuda.empty_cache()``
    (under the pool: a trim of it), which takes the allocator's lock, waits for the devices and breaks the capture of a CUDA
    graph: while this thread captures one, the request stays for later.
    """
    if _request().number == 0 or not _busy.acquire(blocking=False):
        return False
    try:
        request = _request()  # another thread may have answered since
        return request.number != 0 and _trim(request)
    finally:
        _busy.release()


def _request() -> BoardWish:
    request = BoardWish(struct_bytes=ctypes.sizeof(BoardWish))
    library().vram_board_request(ctypes.byref(request))
    return request


def _trim(request: BoardWish) -> bool:
    given: list[int | None]
    try:
        frameworks = used_frameworks()
        if any(framework.unavailable_reason() for framework in frameworks):
            return False
        given = [_empty(framework, None if request.device == UNKNOWN else request.device) for framework in frameworks]
    except Exception:  # the program will meet it itself, where it can be dealt with
        given = [None]
    known = [each for each in given if each is not None]
    library().vram_board_answer(request.number, sum(known) if known or not given else UNKNOWN)
    return True


def _empty(framework: Framework, device: int | None) -> int | None:
    """How many bytes that gave of the device (None: of all); None: the framework can't tell."""
    before = _reserved(framework, device)
    framework.release_cache()
    after = _reserved(framework, device)
    return None if before is None or after is None else max(before - after, 0)


def _reserved(framework: Framework, device: int | None) -> int | None:
    devices = [each for each in framework.devices() if device in (None, each)]
    figures = [framework.figures(each).reserved_bytes for each in devices]
    known = [each for each in figures if each is not None]
    return sum(known) if len(known) == len(figures) else None

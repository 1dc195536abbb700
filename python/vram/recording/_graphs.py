"""Measures the memory that CUDA graphs of PyTorch take outside of its allocator, while a recording runs."""

from __future__ import annotations

import sys
import threading
from typing import Any

from vram.recording import _growth

_NAME = "CUDA graphs"


class _State:
    lock = threading.Lock()
    captures: _Captures | None = None


class _Captures:
    """Measures captures until undo(). A function that the program has wrapped by then stays, and only passes calls on."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._class = torch.cuda.CUDAGraph
        self._before = {name: getattr(self._class, name) for name in ("capture_begin", "capture_end")}
        self._begun: dict[int, tuple[int, int | None]] | None = {}  # by graph; None: it is over
        self._own = {"capture_begin": self._capture_begin(), "capture_end": self._capture_end()}
        for name, own in self._own.items():
            setattr(self._class, name, own)

    def undo(self) -> None:
        self._begun = None
        for name, own in self._own.items():
            if getattr(self._class, name) is own:
                setattr(self._class, name, self._before[name])

    def _capture_begin(self) -> Any:
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            begun = self._begun
            if begun is not None:
                device = self._torch.cuda.current_device()
                begun[id(graph)] = (device, _growth.outside_bytes(device))
            return self._before["capture_begin"](graph, *args, **kwargs)

        return capture_begin

    def _capture_end(self) -> Any:
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = self._before["capture_end"](graph, *args, **kwargs)
            device, before = (self._begun or {}).pop(id(graph), (0, None))
            _growth.add(_NAME, device, before)
            return result

        return capture_end


def start() -> None:
    """Measure the graphs that are captured from now on. Calling it again has no effect."""
    torch: Any = sys.modules["torch"]
    with _State.lock:
        if _State.captures is None and hasattr(getattr(torch, "cuda", None), "CUDAGraph"):
            _State.captures = _Captures(torch)


def stop() -> None:
    """End what start() began. Calling it again has no effect."""
    with _State.lock:
        if _State.captures is not None:
            _State.captures.undo()
            _State.captures = None

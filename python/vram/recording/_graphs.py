"""Measures the memory that CUDA graphs of PyTorch take outside of its allocator, while a recording runs."""

from __future__ import annotations

import sys
import threading
from typing import Any

from vram.recording import _growth

_NAME = "CUDA graphs"


class _State:
    lock = threading.Lock()
    graph_class: Any = None
    before: tuple[Any, Any] | None = None


def start() -> None:
    """Measure the graphs that are captured from now on. Calling it again has no effect."""
    torch: Any = sys.modules["torch"]
    graph_class = getattr(getattr(torch, "cuda", None), "CUDAGraph", None)
    with _State.lock:
        if _State.graph_class is not None or graph_class is None:
            return
        begin, end = graph_class.capture_begin, graph_class.capture_end
        begun: dict[int, tuple[int, int | None]] = {}  # by graph

        def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
            device = torch.cuda.current_device()
            begun[id(self)] = (device, _growth.outside_bytes(device))
            return begin(self, *args, **kwargs)

        def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = end(self, *args, **kwargs)
            device, before = begun.pop(id(self), (0, None))
            _growth.add(_NAME, device, before)
            return result

        _State.graph_class, _State.before = graph_class, (begin, end)
        graph_class.capture_begin, graph_class.capture_end = capture_begin, capture_end


def stop() -> None:
    """End what start() began. Calling it again has no effect."""
    with _State.lock:
        if _State.graph_class is None or _State.before is None:
            return
        _State.graph_class.capture_begin, _State.graph_class.capture_end = _State.before
        _State.graph_class = _State.before = None

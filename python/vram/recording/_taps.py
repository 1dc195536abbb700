"""Records frameworks' own allocators and collectives. vram's own pool and the driver tap need no help: they report their events."""

from __future__ import annotations

from vram import torch as under_torch
from vram.recording import _collectives, _graphs, _growth
from vram.torch import _recording


def start(*, with_stacks: bool) -> bool:
    """Record the allocators of the frameworks that the program has imported. Returns whether there is one.

    Raises:
        VramError: One cannot be recorded.
    """
    _growth.reset()
    try:
        _collectives.start()
        if not _recording.is_available():
            return False
        _graphs.start()
        _recording.start_tap(stacks=with_stacks)
    except BaseException:
        stop()
        raise
    return True


def require_driver() -> None:
    """Check that this machine has a CUDA driver.

    Raises:
        VramError: It has none, so nothing can be recorded.
    """
    under_torch.require_driver()


def stop() -> None:
    """End what start() began."""
    _graphs.stop()
    _collectives.stop()
    _recording.stop_tap()

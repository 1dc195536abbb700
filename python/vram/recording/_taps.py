"""What is listened to besides vram's own pool and the driver, which say what they do by themselves."""

from __future__ import annotations

from vram import torch as under_torch
from vram.torch import _recording


def start(*, with_stacks: bool) -> None:
    """Of the frameworks that the program has imported. VramError: one can't be listened to."""
    if _recording.is_available():
        _recording.start_tap(stacks=with_stacks)


def require_driver() -> None:
    """VramError: this machine has no CUDA driver, so nothing can be recorded."""
    under_torch.require_driver()


def stop() -> None:
    """What start() began."""
    _recording.stop_tap()

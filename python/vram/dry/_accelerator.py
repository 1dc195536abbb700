"""What PyTorch's C++ code asks about accelerators in a dry run.

It calls these functions through ctypes, which prints exceptions and continues. So Ctrl-C waits for their end (_interrupts.py), and nothing else belongs here.
"""

from __future__ import annotations

import threading


class Engine(threading.local):
    """Autograd's engine on one thread."""

    finds_accelerator = False  # in a build for the CPU


engine = Engine()


def is_built(_hooks: int | None) -> bool:
    return engine.finds_accelerator


def has_context(_hooks: int | None, _device: int) -> bool:
    return False


def nothing() -> None: ...

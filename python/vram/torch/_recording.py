"""PyTorch's own allocator under a recording: what it holds and does goes to the recorder as it happens.

The adapter's tap (adapter/tap.hpp) does it; here it is compiled, loaded and switched. vram's pool needs none of this: it
says itself what it does. Both may be on: the native allocator then tells of what it serves beside the pool (CUDA graphs,
``MemPool``, tensors from before). A memory history that the program keeps (``_record_memory_history``) goes on untouched.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from vram import torch as under_torch
from vram._error import VramError


def is_available() -> bool:
    """Whether the program has imported a PyTorch with CUDA, and there is a driver: start_tap() then has something to
    listen to. A program that trains on the CPU of a laptop may record its steps and scopes. Imports nothing.

    >>> from vram.torch import _recording
    >>> _recording.is_available()
    False
    """
    torch: Any = sys.modules.get("torch")
    version = getattr(torch, "version", None)  # not there while torch is being imported
    return getattr(version, "cuda", None) is not None and under_torch.has_driver()


class _State:
    watches_forks = False
    is_of_parent = False  # the tap, with the devices that it listens to


def _has_devices() -> bool:
    """Whether PyTorch has initialized CUDA in this process."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def watch_forks() -> None:
    """The child of a process that has devices must not ask them what they hold: their locks may be held for good."""
    if _State.watches_forks:
        return
    _State.watches_forks = True
    had_devices = [False]

    def before() -> None:
        had_devices[0] = _has_devices()

    def in_child() -> None:
        _State.is_of_parent = _State.is_of_parent or had_devices[0]

    os.register_at_fork(before=before, after_in_child=in_child)


def start_tap(stacks: bool) -> None:
    """Events of PyTorch's own allocator go to the recording that runs; to be called after the recording has started.

    What the allocator holds already is said first. Before CUDA is initialized it works, too: from torch's import on
    (nothing is initialized here, a later fork stays possible) the tap waits for PyTorch's allocator to make its devices,
    and has all that it ever does. A first call may compile the adapter, 3 to 5 s. stacks: each request's stack is taken,
    of the kind that the recording wants. Twice is once. Any thread, but not beside stop_tap() or vram.enable().

    VramError: there is no compiler and no adapter from before, no driver, or an allocator that can't be listened to
    (cudaMallocAsync, one of the user's own).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise VramError("PyTorch's own allocator can be recorded once torch is imported; import it first")
    try:
        _, file, _ = under_torch.prepare_adapter(torch)
        failure = under_torch.load(file).vram_torch_tap(int(stacks))
    except VramError as error:
        raise VramError(
            f"PyTorch's own allocator can't be recorded: {error}; what vram's pool serves to others (CuPy, C) is recorded "
            "without it"
        ) from error
    if failure is not None:
        raise VramError(f"PyTorch's own allocator can't be recorded: {failure.decode(errors='replace')}")
    watch_forks()
    atexit.unregister(stop_tap)
    atexit.register(stop_tap)  # before the library ends a recording that runs as long as the process


def stop_tap() -> None:
    """Nothing more of PyTorch's own allocator is recorded; to be called before the recording is stopped. Twice is once.

    What the allocator holds then goes into the recording, for reports to check its events against. At the end of the
    process it is called by itself. In the child of a fork nothing is done if the devices are its parent's.
    """
    if _State.is_of_parent:
        return
    loaded = under_torch.loaded_adapter()
    if loaded is not None:
        loaded.vram_torch_untap()

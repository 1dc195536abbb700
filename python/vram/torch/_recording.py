"""Records PyTorch's own allocator: its memory and its events go to the recorder as they happen.

The adapter's tap (adapter/tap.hpp) does the work; this module compiles, loads and switches it. vram's pool needs no
tap, because it reports its events. Both may be active: the native allocator then reports the memory that it serves in
addition to the pool (CUDA graphs, ``MemPool``, earlier tensors). The program's own memory history
(``_record_memory_history``) is not affected.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from vram import torch as under_torch
from vram._error import VramError
from vram._texts import tr


def is_available() -> bool:
    """Return whether the program has imported a PyTorch with CUDA, and there is a driver; start_tap() requires both.

    A program that trains on the CPU of a laptop may record its steps and scopes. Imports nothing.

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
    """Record the events of PyTorch's own allocator in the running recording. Start the recording first.

    The existing memory is recorded first. If CUDA is not initialized yet, the tap waits until PyTorch's allocator
    creates its devices and then records everything; it initializes nothing, so a later fork remains possible. The
    first call may compile the adapter, which takes 3 to 5 s. Calling it again has no effect. Any thread may call it,
    but not at the same time as stop_tap() or vram.enable().

    Args:
        stacks: Records the stack of each request, of the kind that the recording specifies.

    Raises:
        VramError: There is neither a compiler nor a compiled adapter, there is no driver, or the allocator cannot be
            recorded (cudaMallocAsync, a user-defined one).
    """
    torch = sys.modules.get("torch")
    if torch is None:
        raise VramError(tr("PyTorch's own allocator can be recorded once torch is imported; import it first"))
    try:
        _, file, _ = under_torch.prepare_adapter(torch)
        failure = under_torch.load(file).vram_torch_tap(int(stacks))
    except VramError as error:
        raise VramError(
            tr(
                "PyTorch's own allocator can't be recorded: {}; what vram's pool serves to others (CuPy, "
                "C) is recorded without it"
            ).format(error)
        ) from error
    if failure is not None:
        raise VramError(tr("PyTorch's own allocator can't be recorded: {}").format(failure.decode(errors="replace")))
    watch_forks()
    atexit.unregister(stop_tap)
    atexit.register(stop_tap)  # before the library ends a recording that runs as long as the process


def stop_tap() -> None:
    """Stop recording PyTorch's own allocator. Call it before the recording is stopped. Calling it again has no effect.

    The allocator's state then becomes part of the recording, so reports can check its events. Runs at the end of the
    process, too. In a forked child it does nothing if the devices are those of its parent.
    """
    if _State.is_of_parent:
        return
    loaded = under_torch.loaded_adapter()
    if loaded is not None:
        loaded.vram_torch_untap()

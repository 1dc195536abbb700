"""The threads of a program: loaders that copy batches to the GPU, and files that are read in parallel.

PyTorch's modes belong to the thread that entered them. A thread that is started during a dry run enters them, too, and one operator runs at a time.
Threads of an executor may be older than the dry run, and outlast it: they enter the modes for each call.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import thread as executor
from typing import Any

import torch

from vram.dry._mode import DryMode
from vram.dry._patches import Patches
from vram.dry._repeat import EnoughSteps


def put_in_place(patches: Patches, mode: DryMode) -> None:
    """Let the threads that start from now on, and the calls of executors, be part of the dry run."""
    here = threading.local()  # has `is_inside` in threads that have entered the modes
    start = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    run, work = executor._WorkItem.run, executor._worker

    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        if hasattr(here, "is_inside"):
            yield
            return
        here.is_inside = True
        try:
            with torch.autograd.set_multithreading_enabled(False), mode.fakes, mode:
                yield
        finally:
            del here.is_inside

    def followed(thread: Any) -> None:
        thread._invoke_excepthook = _silent_after_enough_steps(thread._invoke_excepthook)
        with contextlib.nullcontext() if getattr(thread, "_target", None) is followed_worker else entered():
            start(thread)

    def followed_call(call: Any, *args: Any) -> None:
        with entered():
            run(call, *args)

    def followed_worker(reference: Any, queue: Any, initializer: Any = None, *args: Any) -> None:
        def initialize(*args: Any) -> None:
            with entered():
                initializer(*args)

        work(reference, queue, initialize if callable(initializer) else initializer, *args)

    patches.put(threading.Thread, "_bootstrap_inner", followed)
    patches.put(executor._WorkItem, "run", followed_call)
    patches.put(executor, "_worker", followed_worker)


def _silent_after_enough_steps(hook: Callable[[Any], None]) -> Callable[[Any], None]:
    """What a thread calls that ends with an exception; if the optimizer steps in it, perhaps after the end of the dry run."""

    def ended(thread: Any) -> None:
        if not isinstance(sys.exc_info()[1], EnoughSteps):
            hook(thread)

    return ended

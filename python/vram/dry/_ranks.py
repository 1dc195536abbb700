"""What a launcher says to the ranks that it starts. Without PyTorch, which may be missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def launched(world_size: int) -> Iterator[None]:
    """Let a program find the variables that torchrun sets for rank 0 of one host, unless it has its own."""
    ranks = str(world_size)
    variables = {
        **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0"),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)

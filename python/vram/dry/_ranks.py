"""What a launcher says to the ranks that it starts. Without PyTorch, which may be missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def _variables(world_size: int) -> dict[str, str]:
    ranks = str(world_size)
    return {
        **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0"),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }


def missing(error: BaseException) -> str | None:
    """Return the variable of a launcher that a program has not found; None: it failed by something else."""
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    return name if isinstance(name, str) and name in _variables(1) and name not in os.environ else None


@contextlib.contextmanager
def launched(world_size: int) -> Iterator[None]:
    """Let a program find the variables that torchrun sets for rank 0 of one host, unless it has its own."""
    added = {name: value for name, value in _variables(world_size).items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)

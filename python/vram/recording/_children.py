"""Children that multiprocessing makes by fork end by ``os._exit``, which no function at exit survives: there it is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

# Below 0: after what multiprocessing and the program finish.
EXIT_PRIORITY = -100


class _State:
    finish: Callable[[], None]
    is_watching = False


def finish_at_exit(finish: Callable[[], None]) -> None:
    """Calls finish at the end of each child that multiprocessing forks from here on, and of theirs."""
    _State.finish = finish
    if not _State.is_watching:
        _State.is_watching = True
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    # The child's bootstrap clears what is to be finished, then calls what is registered for after a fork.
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_State, _register)


def _register(state: type[_State]) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, state.finish, exitpriority=EXIT_PRIORITY)

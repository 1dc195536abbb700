"""Builds slow products once for all processes of a test run (pytest -n)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of this name, filled by ``build``: the first process builds, the others wait."""
    base = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # each process has a folder of its own in the run's
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = base / f"{name}.ready"
        if not ready.exists():
            folder.mkdir()
            build(folder)
            ready.touch()
    return folder

"""The installed version and program, read from the package's own metadata only."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path

from vram._texts import tr


@cache
def _distribution() -> Distribution:
    return distribution("vram")


def version() -> str:
    """Return the version, which the package, the program and the library share."""
    return _distribution().version


def program() -> Path:
    """Return the path of the program that was installed with this package (in a venv, with --user, in a prefix).

    ``VRAM_PROGRAM`` names another one.

    Raises:
        FileNotFoundError: The program is missing.
        importlib.metadata.PackageNotFoundError: The package runs from its sources.

    >>> import vram
    >>> command = [str(vram.program()), "report", "run.vtrace"]
    >>> command[0].endswith("/bin/vram")
    True
    """
    named = os.environ.get("VRAM_PROGRAM")
    if named:
        return Path(named)
    for file in _distribution().files or []:
        if file.name == "vram" and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError(
        tr("vram {} was installed without its program; install the package again").format(version())
    )

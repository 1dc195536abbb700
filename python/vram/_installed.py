"""What was installed: the version, and where the program lies. Reads the package's own metadata, nothing else."""

from __future__ import annotations

from functools import cache
from importlib.metadata import Distribution, distribution
from pathlib import Path


@cache
def _distribution() -> Distribution:
    return distribution("vram")


def version() -> str:
    """The version of the package, the program and the library: they are one."""
    return _distribution().version


def program() -> Path:
    """The program that was installed with this package, wherever the installer put it (a venv, --user, a prefix).

    FileNotFoundError: it is not there. importlib.metadata.PackageNotFoundError: the package runs from its sources.

    >>> import vram
    >>> command = [str(vram.program()), "report", "run.vtrace"]
    >>> command[0].endswith("/bin/vram")
    True
    """
    for file in _distribution().files or []:
        if file.name == "vram" and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError(f"vram {version()} was installed without its program; install the package again")

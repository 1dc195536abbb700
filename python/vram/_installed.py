"""What was installed: the version, and where the program lies. Reads the package's own metadata, nothing else."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

_DISTRIBUTION = distribution("vram")

__version__: str = _DISTRIBUTION.version


def program() -> Path:
    """The program that was installed with this package, wherever the installer put it (a venv, --user, a prefix)."""
    for file in _DISTRIBUTION.files or []:
        if file.name == "vram" and file.parent.name == "bin":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError(f"vram {__version__} was installed without its program; install the package again")

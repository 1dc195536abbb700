"""The build backend: scikit-build-core's, whose source distributions get a file COMMIT, for ``vram --version``.

A source distribution has no repository in which cmake/commit.cmake could ask for the commit it was made of.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scikit_build_core import build as scikit_build
from scikit_build_core.build import *  # noqa: F403  the other hooks; which there are depends on pyproject.toml

ROOT = Path(__file__).resolve().parent.parent
COMMIT = ROOT / "COMMIT"


def build_sdist(sdist_directory: str, config_settings: dict[str, list[str] | str] | None = None) -> str:  # type: ignore[no-redef]
    """Make the source distribution, with the commit in it if this is a repository."""
    with _commit_file():
        return scikit_build.build_sdist(sdist_directory, config_settings)


@contextlib.contextmanager
def _commit_file() -> Iterator[None]:
    """The file while the distribution is made; one that is there already came with a source distribution and stays."""
    commit = _commit()
    if commit is None:
        yield
        return
    COMMIT.write_text(commit + "\n")
    try:
        yield
    finally:
        COMMIT.unlink()


def _commit() -> str | None:
    """As cmake/commit.cmake has it; None without git, or outside a repository."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT)]
    command += ["describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None

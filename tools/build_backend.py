"""The build backend: scikit-build-core's, which adds a file COMMIT to source distributions, for ``vram --version``.

cmake/commit.cmake asks the repository for the commit; a source distribution contains no repository.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from scikit_build_core import build as scikit_build
from scikit_build_core.build import *  # noqa: F403  the other hooks; pyproject.toml determines which exist

ROOT = Path(__file__).resolve().parent.parent
COMMIT = ROOT / "COMMIT"
# A new file in these folders becomes part of the program or the source distribution before git tracks it, and
# `git describe --dirty` does not report it. cmake/commit.cmake has the same list.
BUILT_IN = ("src", "include", "cmake", "python", "demo", "tools", "CMakeLists.txt")


def build_sdist(sdist_directory: str, config_settings: dict[str, list[str] | str] | None = None) -> str:  # type: ignore[no-redef]
    """Make the source distribution, with the commit in it if this is a repository."""
    with _commit_file():
        return scikit_build.build_sdist(sdist_directory, config_settings)


@contextlib.contextmanager
def _commit_file() -> Iterator[None]:
    """Provide the file while the distribution is built. An existing one came with a source distribution and is kept."""
    made_of = commit()
    if made_of is None:
        yield
        return
    COMMIT.write_text(made_of + "\n")
    try:
        yield
    finally:
        COMMIT.unlink()


def commit() -> str | None:
    """Return the commit as cmake/commit.cmake does, with -dirty after changes; None without git or a repository."""
    if not (ROOT / ".git").exists():
        return None
    try:
        described = _git("describe", "--always", "--dirty", "--abbrev=7", "--exclude=*")
        if not described.endswith("-dirty") and _git(
            "status", "--porcelain", "--untracked-files=normal", "--", *BUILT_IN
        ):
            described += "-dirty"
    except (OSError, subprocess.CalledProcessError):
        return None
    return described


def _git(*words: str) -> str:
    command = ["git", "--no-optional-locks", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

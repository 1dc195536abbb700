"""Lists the files of this repository that are checked: tracked ones, and new ones that are not ignored."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CPP = (".cpp", ".hpp")


def source_files(*suffixes: str, under: str = ".") -> list[Path]:
    """Returns the paths with one of these suffixes, relative to the root, in order."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", under],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = (Path(name) for name in listed if name.endswith(suffixes))
    return sorted(path for path in found if (ROOT / path).is_file())

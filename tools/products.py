"""Files that follow from another file of this repository: a tool writes them, and --check compares them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path


def update(root: Path, products: Iterable[tuple[str, str]], source: str, tool: str, about: str = "") -> int:
    """Writes the files whose text differs, or names them if --check is given. Returns the exit code.

    Args:
        products: The path of each file, and its text.
        about: What is printed in front of the number of files.
    """
    is_check = "--check" in sys.argv
    stale = [(name, text) for name, text in products if (root / name).read_text(encoding="utf-8") != text]
    for name, text in stale:
        if is_check:
            print(f"{name} differs from {source}: run {tool}")
        else:
            (root / name).write_text(text, encoding="utf-8")
    print(f"{about}{len(stale)} files {'stale' if is_check else 'written'}")
    return 1 if stale and is_check else 0

"""README.md stays short, README.zh-CN.md matches it line by line, and docs/README.md lists every page."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from check_links import read_document
from source_files import ROOT, source_files

ENGLISH, CHINESE = ((ROOT / name).read_text() for name in ("README.md", "README.zh-CN.md"))
MAX_LINES = 120


def test_it_is_short() -> None:
    assert len(ENGLISH.splitlines()) <= MAX_LINES


def kinds(text: str) -> list[str]:
    """What each line is: code as it stands without its comments, headings by their level, else text or nothing."""
    found, is_code = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
            found.append(line)
        elif is_code:
            found.append(re.sub(r" *# .*", "", line))
        else:
            found.append(line.split(" ")[0] if line.startswith("#") else "text" if line else "")
    return found


def test_both_have_the_same_lines() -> None:
    assert kinds(ENGLISH) == kinds(CHINESE)


def test_both_have_the_same_links() -> None:
    other = {"README.zh-CN.md": "README.md", "docs/zh/habits.md": "docs/habits.md"}
    ours, theirs = (
        [other.get(link.target, link.target) for link in read_document(text).links] for text in (ENGLISH, CHINESE)
    )
    assert ours == theirs


def test_the_index_lists_every_page() -> None:
    listed = [link.target for link in read_document((ROOT / "docs/README.md").read_text()).links]
    pages = {PurePosixPath(path).relative_to("docs").as_posix() for path in source_files(".md", under="docs")}
    assert pages - set(listed) == {"README.md"}
    assert len(listed) == len(set(listed))

"""README.md stays short, README.zh-CN.md matches it line by line, and docs/README.md lists every page."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from check_links import read_document
from source_files import ROOT

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
    ours, theirs = (
        [
            re.sub(
                r"README(\.zh-CN)?\.md|docs/zh/|\.zh(?=\.png)",
                lambda part: "docs/" if part[0] == "docs/zh/" else "",
                link.target,
            )
            for link in read_document(text).links
        ]
        for text in (ENGLISH, CHINESE)
    )
    assert ours == theirs


def test_the_chinese_one_leads_to_chinese_pages() -> None:
    pages = {f"docs/{path.name}" for path in (ROOT / "docs/zh").glob("*.md")}
    assert [link.target for link in read_document(CHINESE).links if link.target in pages] == []


def listed(index: str) -> list[str]:
    return [link.target for link in read_document((ROOT / index).read_text()).links]


def test_the_index_lists_every_page() -> None:
    found = listed("docs/README.md")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - set(found) == {"README.md"}
    assert len(found) == len(set(found))


def test_the_chinese_index_lists_the_same_pages_in_chinese_where_they_are() -> None:
    found = listed("docs/zh/README.md")
    assert [PurePosixPath(target).name for target in found[1:]] == [
        PurePosixPath(target).name for target in listed("docs/README.md")[1:-1]
    ]
    for target in found[1:]:
        name = PurePosixPath(target).name
        assert ("/" not in target) == ((ROOT / "docs/zh" / name).is_file() and name != "README.md"), target
        assert f"]({target}){'（英文）' if '/' in target else '：'}" in (ROOT / "docs/zh/README.md").read_text()

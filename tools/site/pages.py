"""The pages of the site: which file of the repository is which page, the list of pages as a tree, and links between them."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
# Pages of files that are not in docs/.
OTHERS = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "deploy/README.md": "deploy.md",
    "examples/README.md": "examples.md",
}


def sources(home: str, index: str, translated: bool) -> dict[str, str]:
    """Returns which file of the repository each page is made from, by the page's path in the site.

    Args:
        home: The file of the first page.
        index: The file that lists all pages.
        translated: Whether a page of docs/zh replaces the English page of the same name.
    """
    found = {path.name: path for path in sorted((ROOT / "docs").glob("*.md"))}
    if translated:
        found |= {path.name: path for path in sorted((ROOT / "docs/zh").glob("*.md"))}
    del found["README.md"]
    pages = {name: path.relative_to(ROOT).as_posix() for name, path in found.items()}
    pages |= {page: name for name, page in OTHERS.items()}
    return pages | {"index.md": home, "contents.md": index}


@dataclass
class Group:
    """A heading of the list of pages, with the pages and groups below it."""

    title: str
    entries: list[Group | tuple[str, str]] = field(default_factory=list)  # or a title and the target of its link


def groups(markdown: str) -> list[Group]:
    """Returns the headings of the second level of a list of pages. A paragraph that ends with a colon is a group below one."""
    found: list[Group] = []
    below: Group | None = None
    for line in markdown.splitlines():
        if line.startswith("## "):
            below = Group(line[3:].strip())
            found.append(below)
        elif found and re.fullmatch(r"\S.*[:：]", line):
            below = Group(line[:-1])
            found[-1].entries.append(below)
        elif below is not None and (item := re.match(r"- \[([^]]+)\]\(([^)]+)\)(（英文）)?", line)):
            below.entries.append((item[1] + (item[3] or ""), item[2]))
    return found


def numbered_anchor(heading: str, times: dict[str, int]) -> str:
    """Returns the anchor that GitHub gives to a heading, and counts how many of the page have the same text."""
    anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
    count = times.get(anchor, 0)
    times[anchor] = count + 1
    return f"{anchor}-{count}" if count else anchor


def anchors(markdown: str) -> list[str]:
    """Returns the anchors of the headings of a page, in order."""
    times: dict[str, int] = {}
    without_code = re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S)
    headings = re.findall(r"^#{1,6} (.*)$", without_code, re.M)
    return [numbered_anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading), times) for heading in headings]


def shape(markdown: str) -> list[str]:
    """Returns the kinds of the lines that a translation has too: headings by their level, rows of tables, and commands."""
    kinds = re.findall(r"^(#{1,6} |\||```|\$ .*)", markdown, re.M)
    return [re.sub(r" +# .*", "", kind) for kind in kinds]


def resolved(source: str, target: str) -> str:
    """Returns the path in the repository of a relative link in a file."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def relative(page: str, target: str) -> str:
    """Returns the link from one page of the site to another."""
    return posixpath.relpath(target, posixpath.dirname(page) or ".")


def address(page: str) -> str:
    """Returns the address of a page below the site: "pool.md" is "pool.html"."""
    return PurePosixPath(page).with_suffix(".html").as_posix()

#!/usr/bin/env python3
"""Checks the links between the files of this repository: every relative link and image in a Markdown file leads to a file
that git knows, and every anchor to a heading of that file. Web addresses are not visited.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from source_files import ROOT, source_files

HTML_ANCHOR = re.compile(r"""<\w+[^>]*\s(?:id|name)=["']([^"']+)["']""")
HTML_LINK = re.compile(r"""<(?:a|img)\s[^>]*(?:href|src)=["']([^"']+)["']""")
LINES = re.compile(r"L\d+(-L\d+)?")  # what code hosts accept after the name of any file


@dataclass(frozen=True)
class Link:
    line: int
    target: str


@dataclass(frozen=True)
class Document:
    links: list[Link]
    anchors: set[str]


def slug(heading: str) -> str:
    """Returns the anchor that GitHub gives to a heading, if it is the first of its text."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def read_document(text: str) -> Document:
    """Returns the links and the anchors of a Markdown text, except those in code blocks."""
    links: list[Link] = []
    anchors: set[str] = set()
    times: dict[str, int] = {}
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for index, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else 1
        if token.type == "html_block":
            _read_html(token.content, line, links, anchors)
        if token.type != "inline":
            continue
        for child in token.children or ():
            target = child.attrGet("href") or child.attrGet("src")
            if target is not None and child.type in ("link_open", "image"):
                links.append(Link(line, str(target)))
            elif child.type == "html_inline":
                _read_html(child.content, line, links, anchors)
        if tokens[index - 1].type == "heading_open":
            anchor = slug(_text_of(token))
            count = times.get(anchor, 0)
            times[anchor] = count + 1
            anchors.add(f"{anchor}-{count}" if count else anchor)
    return Document(links, anchors)


def _read_html(html: str, line: int, links: list[Link], anchors: set[str]) -> None:
    links += [Link(line, target) for target in HTML_LINK.findall(html)]
    anchors.update(HTML_ANCHOR.findall(html))


def _text_of(inline: Token) -> str:
    return "".join(child.content for child in inline.children or () if child.type in ("text", "code_inline"))


def problems(root: Path, files: set[PurePosixPath]) -> Iterator[str]:
    """Yields one line for each link in the Markdown files among `files` that leads nowhere.

    Args:
        root: The folder that the paths in `files` are relative to.
        files: Every file that a link may lead to.
    """
    folders = {folder for file in files for folder in file.parents}

    @cache
    def document(file: PurePosixPath) -> Document:
        return read_document((root / file).read_text(encoding="utf-8"))

    for file in sorted(file for file in files if file.suffix == ".md"):
        for link in document(file).links:
            address = urlsplit(link.target)
            if address.scheme or address.netloc:
                continue
            where = f"{file}:{link.line}: {link.target}"
            to = _resolve(file, unquote(address.path)) if address.path else file
            anchor = unquote(address.fragment)
            if to is None or (to not in files and to not in folders):
                yield f"{where}: expected a file or a folder of the repository, found nothing there"
            elif to.suffix == ".md" and anchor and anchor not in document(to).anchors:
                yield f"{where}: {to} has no heading with this anchor"
            elif to.suffix != ".md" and anchor and not LINES.fullmatch(anchor):
                yield f"{where}: only Markdown files have anchors; others have #L<line>"


def _resolve(file: PurePosixPath, path: str) -> PurePosixPath | None:
    """The path relative to the root of the target of a link in `file`, or None if it is outside the repository."""
    parts: list[str] = [] if path.startswith("/") else list(file.parent.parts)
    for part in PurePosixPath(path).parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("/", "."):
            parts.append(part)
    return PurePosixPath(*parts)


def main() -> int:
    files = {PurePosixPath(path) for path in source_files("")}
    found = list(problems(ROOT, files))
    documents = sum(file.suffix == ".md" for file in files)
    print("\n".join([*found, f"{documents} Markdown files, {len(found)} broken links"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""The pages of docs/zh follow those of docs: no other headings, commands, programs and tables, and links to Chinese pages where there are some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from check_links import read_document
from source_files import ROOT

PAGES = sorted(path for path in (ROOT / "docs/zh").glob("*.md") if path.name != "README.md")
COMMENT = re.compile(r"\s*(?:#|//) .*")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def original(page: Path) -> Path:
    return ROOT / "docs" / page.name


def code(page: Path) -> list[str]:
    """The commands and programs of a page, without comments. What commands print may be in the language of the page."""
    found = []
    for token in tokens(page):
        if token.type == "fence" and token.info != "text":
            lines = [COMMENT.sub("", line) for line in token.content.splitlines()]
            is_console = token.info == "console"
            found += [line for line in lines if line.strip() and (not is_console or line.startswith(("$ ", "# ")))]
    return found


def test_there_are_translations() -> None:
    names = {page.stem for page in PAGES}
    assert names >= {
        "quick-start",
        "habits",
        "record",
        "report",
        "clean",
        "recover",
        "live",
        "monitor",
        "replay",
        "pool",
        "top",
        "serve",
        "doctor",
        "alerts",
        "plan",
    }


@each_page
def test_it_has_an_original(page: Path) -> None:
    assert original(page).is_file()


def is_within(part: Sequence[object], whole: Sequence[object]) -> bool:
    """Whether all items of a list are in another one, in the same order."""
    rest = iter(whole)
    return all(item in rest for item in part)


# Who changes an original need not know Chinese: a translation may lack what is new until it is translated, and the site says so.
@each_page
def test_it_has_the_commands_and_programs_of_the_original(page: Path) -> None:
    ours, theirs = code(page), code(original(page))
    assert is_within(ours, theirs)
    assert len(ours) >= 0.5 * len(theirs)


@each_page
def test_it_has_the_headings_and_tables_of_the_original(page: Path) -> None:
    def shape(path: Path) -> list[str]:
        return [token.tag for token in tokens(path) if token.type in ("heading_open", "tr_open", "th_open", "td_open")]

    assert is_within(shape(page), shape(original(page)))


def subjects(page: Path) -> list[list[str]]:
    """What the rows of a page's tables are about, if it is only code: options, ids of checks, alert rules, metrics, fields."""
    cells = re.findall(r"^\| (`[^|]*`) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    is_code = re.compile(r"`[^`]+`((, |、| and | 和 | or | 或 |, … )`[^`]+`)*")
    return [re.findall(r"`[^`]+`", cell) for cell in cells if is_code.fullmatch(cell)]


@each_page
def test_its_tables_are_about_what_those_of_the_original_are_about(page: Path) -> None:
    assert is_within(subjects(page), subjects(original(page)))


@each_page
def test_it_links_to_chinese_pages(page: Path) -> None:
    translated = {f"../{other.name}" for other in PAGES} - {f"../{page.name}"}
    links = [link.target.partition("#") for link in read_document(page.read_text(encoding="utf-8")).links]
    # An English section may be named in addition, for its wording.
    assert [path for path, _, _ in links if path in translated] == []


@each_page
def test_both_lead_to_each_other(page: Path) -> None:
    assert f"*[English](../{page.name})*" in page.read_text(encoding="utf-8").splitlines()[2]
    assert f"*[中文](zh/{page.name})*" in original(page).read_text(encoding="utf-8").splitlines()[2]

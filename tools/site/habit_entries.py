"""What the search of the site finds: each row of src/cli/habits.toml by its words, and Chinese queries of several words."""

from __future__ import annotations

import re
import tomllib
from itertools import count
from typing import Any

import jieba

from pages import ROOT

SOURCE = ROOT / "src/cli/habits.toml"
HAN = re.compile(r"[\u4e00-\u9fff]+")
# Changes of the theme's search. Its function that divides Chinese queries by the words of the index never sees the last character, so
# that a search for 显存碎片 only searches 显存, and it gives up if a query begins with a word that the index lacks. Ours takes the longest
# words from left to right, and leaves out what begins no word. The theme adds two asterisks to such words, of which the search removes one.
# And a word with a hyphen, as in `nvidia-smi -l 1`, is no longer excluded.
CHANGES = (
    (
        re.compile(
            r"function (\w+)\(t,e\)\{let r=new Set,n=new Uint16Array\(t\.length\);.*?return r\.has\(\"\"\)\?new Set\(\[t\]\):r\}"
        ),
        r"function \1(t,e){let r=new Set;for(let i=0;i<t.length;){let j=t.length;while(j>i&&!(t.slice(i,j)in e))j--;"
        r"j>i?(r.add(t.slice(i,j)),i=j):i++}return r.size?r:new Set([t])}",
    ),
    (re.compile(r'(?<=this\.index\.invertedIndex\)\]\.join\(")\*(?= "\))'), ""),
    (
        re.compile(r'search\((\w)\)\{if\((?=\1=\1\.replace\(new RegExp\("\\\\p\{sc=Han\})'),
        r'search(\1){\1=\1.replace(/(^|\\s)[-+]+/g,"$1");if(',
    ),
)


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["habit"]
    return found


def with_anchors(markdown: str) -> str:
    """The page of habits with an anchor in each row of its tables; tools/habits.py writes these in the order of the groups."""
    numbers = count(1)
    tables = re.compile(r"(?<=^<!-- habits: )\w+ -->\n.*?(?=^<!-- end of habits -->$)", re.M | re.S)

    def numbered(table: re.Match[str]) -> str:
        return re.sub(r"^\| (?=`)", lambda _: f'| <span id="habit-{next(numbers)}"></span>', table[0], flags=re.M)

    return tables.sub(numbered, markdown)


def entries(language: str) -> list[dict[str, Any]]:
    """Returns an entry of the search index for each row."""
    page = (ROOT / ("docs/zh/habits.md" if language == "zh" else "docs/habits.md")).read_text(encoding="utf-8")
    groups = re.findall(r"^<!-- habits: (\w+) -->$", page, re.M)
    in_order = [row for group in groups for row in rows() if row["group"] == group]
    return [
        {
            "location": f"habits.html#habit-{number}",
            "title": divided(row["today"]),
            "text": divided(f"{row['now']}: {row[language]}"),
            "tags": [divided(word) for word in row["words"]],
        }
        for number, row in enumerate(in_order, 1)
    ]


def divided(text: str) -> str:
    """The text with a zero-width space between words of Chinese, as the theme's search writes it."""
    return HAN.sub(lambda han: "\u200b" + "\u200b".join(jieba.cut(han[0])) + "\u200b", text).strip("\u200b")


def with_changes(worker: str) -> str:
    """The theme's search with CHANGES.

    Raises:
        ValueError: This version of the theme has no such functions.
    """
    for pattern, ours in CHANGES:
        worker, number = pattern.subn(ours, worker)
        if number != 1:
            raise ValueError(
                f"expected the theme's search to contain {pattern.pattern} once, found {number}: see tools/site"
            )
    return worker

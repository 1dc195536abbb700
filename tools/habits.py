#!/usr/bin/env python3
"""Writes the tables of docs/habits.md and docs/zh/habits.md from src/cli/habits.toml; --check compares them.

A table stands between the lines `<!-- habits: GROUP -->` and `<!-- end of habits -->`. habits.toml itself says what its keys mean.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from products import update
from source_files import ROOT

SOURCE = "src/cli/habits.toml"
TABLE = re.compile(r"(?<=^<!-- habits: )(\w+)( -->\n).*?(?=^<!-- end of habits -->$)", re.M | re.S)
HEADS = {
    "en": ("docs/habits.md", "| today | with vram | what it does | when not |"),
    "zh": ("docs/zh/habits.md", "| 现在的写法 | 用 vram | 作用 | 何时不用 |"),
}

Habit = dict[str, str]


def table(rows: list[Habit], language: str) -> str:
    lines = [HEADS[language][1], "|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row['today']}`", f"`{row['now']}`", row[language], row[f"not_{language}"])
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def products(root: Path) -> Iterator[tuple[str, str]]:
    """Each page, with its tables as they follow from the rows.

    Raises:
        ValueError: A group has no table in a page, or a table no rows.
    """
    rows = tomllib.loads((root / SOURCE).read_text(encoding="utf-8"))["habit"]
    groups = {row["group"] for row in rows}
    for language, (name, _) in HEADS.items():
        page = (root / name).read_text(encoding="utf-8")
        shown = {group for group, _ in TABLE.findall(page)}
        if shown != groups:
            raise ValueError(f"{name} has tables of {sorted(shown)}, {SOURCE} groups {sorted(groups)}")

        def fill(match: re.Match[str], language: str = language) -> str:
            return match[1] + match[2] + table([row for row in rows if row["group"] == match[1]], language)

        yield name, TABLE.sub(fill, page)


def main(root: Path = ROOT) -> int:
    return update(root, products(root), SOURCE, "tools/habits.py")


if __name__ == "__main__":
    sys.exit(main())

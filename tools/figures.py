#!/usr/bin/env python3
"""Writes the tables of the documents that the table of figures (src/watch/figures/) determines; --check compares them.

A table stands between the lines `<!-- figures: WHAT -->` and `<!-- end of figures -->`. WHAT is one of

    fields OBJECT    the fields of a JSON object and what they mean, from the `key` and `meaning` of its rows
    metrics TYPE…    the metrics of these types, from `metric`
    dcgm             dcgm-exporter's names and vram's, from `dcgm`
    history          what the history keeps, from `history`
    allocators       the allocators of replays, from src/replay/registry.cpp

C++ is read just far enough for this: rows are braces with designators, and their texts are string literals.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from source_files import ROOT

FIGURES = ROOT / "src" / "watch" / "figures"
ALLOCATORS = ROOT / "src" / "replay" / "registry.cpp"
DOCUMENTS = ("docs/json.md", "docs/metrics.md", "docs/history.md", "docs/replay.md")
REGION = re.compile(
    r"(?<=^<!-- figures: )(?P<what>[\w ]+)(?P<mark> -->\n)(?P<table>.*?)(?=^<!-- end of figures -->$)", re.M | re.S
)
TOKEN = re.compile(r'//[^\n]*|^[ \t]*#[^\n]*|"(?:\\.|[^"\\])*"|[\w:]+|->|\S', re.M)
TABLE = re.compile(r"\bconstexpr auto (k\w+) =\s*std::to_array<Figure<(\w+)>>\(")
CONSTANT = re.compile(r"\bconstexpr (?:Group<\w+>|ObjectType|std::string_view) (k\w+)\s*(?:=\s*)?(?=[{\"])")
JOINED = re.compile(r"\bconstexpr auto (k\w+) =\s*joined\(([\w\s,]+)\)")
# The labels that the series of each type have before those of the metric.
LABELS = {
    "Device": ("uuid",),
    "MigInstance": ("uuid", "gi"),
    "Process": ("pid",),
    "Use": ("uuid", "pid", "gi", "ci"),
}
# As unit_of() in src/show/metrics/families.cpp; a test of the published page compares.
# A text that is translated when it is shown.
MARKED = re.compile(r'\btr_later\(((?:\s*"(?:\\.|[^"\\])*")+)\)')
UNIT = re.compile(r"_(bytes|seconds|ratio|celsius|watts|hertz)(?:_total)?$")
# Angle brackets too: rows have template arguments and compare nothing.
OPENING, CLOSING = set("({[<"), set(")}]>")

Row = dict[str, Any]


class Unreadable(Exception):
    """The table of figures is not written as this tool reads it."""


class Reader:
    """Reads initializers: designated braces as dicts, other braces as lists, string literals as text, all else as it stands."""

    def __init__(self, text: str) -> None:
        found = (match.group() for match in TOKEN.finditer(text))
        self.tokens = [token for token in found if not token.startswith(("//", "#"))]
        self.at = 0

    def value(self) -> Any:
        if self._peek() == "{":
            return self._braces()
        if self._peek().startswith('"'):
            text = ""
            while self._peek().startswith('"'):
                text += ast.literal_eval(self._next())
            return text
        return self._expression()

    def _braces(self) -> Any:
        self._expect("{")
        items: list[Any] = []
        named: Row = {}
        while self._peek() != "}":
            if self._peek() == ".":
                self._expect(".")
                name = self._next()
                self._expect("=")
                named[name] = self.value()
            else:
                items.append(self.value())
            if self._peek() != "}":
                self._expect(",")
        self._expect("}")
        if items and named:
            raise Unreadable(f"braces with and without designators: {sorted(named)}")
        return named or items

    def _expression(self) -> str:
        """Up to a comma or a bracket that belongs to what is around it."""
        tokens: list[str] = []
        depth = 0
        while depth or self._peek() not in {",", "}", ")"}:
            token = self._next()
            depth += token in OPENING
            depth -= token in CLOSING
            tokens.append(token)
        return "".join(tokens)

    def _peek(self) -> str:
        if self.at == len(self.tokens):
            raise Unreadable(f"the text ends within an initializer: … {' '.join(self.tokens[-5:])}")
        return self.tokens[self.at]

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _expect(self, token: str) -> None:
        found = self._next()
        if found != token:
            near = " ".join(self.tokens[max(0, self.at - 6) : self.at])
            raise Unreadable(f"expected {token}, found {found} after: {near}")


@dataclass
class Tables:
    """The rows of each type in the order of its table, and the constants that rows refer to."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    def text(self, value: str) -> str:
        """A text, which may be the name of a constant."""
        return str(self.constants.get(value, value))

    def group(self, row: Row) -> Row | None:
        return self.constants[row["in"].removeprefix("&")] if "in" in row else None

    def object_of(self, group: Row) -> str:
        return str(self.constants[group["type"].removeprefix("&")]["name"])


def read_tables(texts: Iterable[str]) -> Tables:
    """Reads all sources; a table that is joined from others has their rows in that order."""
    tables = Tables()
    parts: dict[str, tuple[str, list[Row]]] = {}
    joins: list[list[str]] = []
    for text in texts:
        for match in CONSTANT.finditer(text):
            tables.constants[match[1]] = Reader(text[match.end() :]).value()
        for match in TABLE.finditer(text):
            parts[match[1]] = (match[2], Reader(text[match.end() :]).value())
        joins += [re.findall(r"\w+", match[2]) for match in JOINED.finditer(text)]
    joined = {name for names in joins for name in names}
    for names in [*joins, *([name] for name in parts if name not in joined)]:
        for name in names:
            owner, rows = parts[name]
            tables.rows.setdefault(owner, []).extend(rows)
    return tables


def arranged(rows: Iterable[Row], cell: str) -> list[Row]:
    """The rows that have this cell, in the order of figures::order_of()."""
    shown = [row for row in rows if row.get(cell, {}).get("name")]
    order = [row for row in shown if "after" not in row[cell]]
    waiting = [row for row in shown if "after" in row[cell]]
    while waiting:
        names = [row[cell]["name"] for row in order]
        ready = (row for row in waiting if row[cell]["after"] in names)
        row = next(ready, None)
        if row is None:
            raise Unreadable(
                f"{cell}: no row is named {waiting[0][cell]['after']}, which {waiting[0][cell]['name']} is to follow"
            )
        after = row[cell]["after"]
        place = names.index(after) + 1
        while place < len(order) and order[place][cell].get("after") == after:
            place += 1
        order.insert(place, row)
        waiting.remove(row)
    return order


def fields(tables: Tables, wanted: str) -> Iterator[tuple[str, ...]]:
    """The fields of a kind of object: those of a type of this name, or of the first group of rows that has it."""
    yield "field", "meaning"
    seen: set[str] = set()
    for kind, rows in tables.rows.items():
        for row in rows:
            group = tables.group(row)
            if "key" not in row:
                continue
            in_part = group is not None and tables.object_of(group) == wanted
            name, meaning = row["key"], row.get("meaning", "")
            if tables.constants[f"k{kind}Type"]["name"] == wanted and not in_part:
                name, meaning = (group["key"], group["meaning"]) if group else (name, meaning)
            elif not in_part or not meaning:
                continue
            if name not in seen:
                seen.add(name)
                yield f"`{name}`", tables.text(meaning)


def metrics(tables: Tables, *types: str) -> Iterator[tuple[str, ...]]:
    yield "metric", "type, unit", "labels", "meaning, and source"
    seen: set[str] = set()
    shown = [(owner, row) for owner in types for row in arranged(tables.rows[owner], "metric")]
    for owner, row in shown:
        cell = row["metric"]
        name = cell["name"]
        if name in seen:
            continue
        seen.add(name)
        unit = UNIT.search(name)
        kind = cell.get("kind", "Kind::kGauge").removeprefix("Kind::k").lower()
        labels = (*LABELS[owner], *cell.get("labels", "").split())
        yield (
            f"`{name}`",
            f"{kind}, {unit[1]}" if unit else kind,
            " ".join(f"`{label}`" for label in labels),
            tables.text(cell["help"]),
        )


def dcgm(tables: Tables) -> Iterator[tuple[str, ...]]:
    yield "name", "vram's name"
    for row in arranged(tables.rows["Device"], "dcgm"):
        yield f"`{row['dcgm']['name']}`", row["dcgm"].get("ours") or f"`{row['metric']['name']}`"


def history(tables: Tables) -> Iterator[tuple[str, ...]]:
    yield "number", "metric", "meaning"
    kept = [row for row in tables.rows["Device"] if "history" in row]
    for row in sorted(kept, key=lambda row: int(row["history"]["number"])):
        group = tables.group(row)
        meaning = row.get("meaning") or f"`{row['key']}` of {group['meaning'] if group else ''}"
        yield row["history"]["number"], f"`{row['history'].get('name', row['key'])}`", meaning


def allocators(_tables: Tables) -> Iterator[tuple[str, ...]]:
    yield "allocator", "what it is", "replay", "compared with"
    text = MARKED.sub(r"\1", ALLOCATORS.read_text(encoding="utf-8"))
    for match in re.finditer(r"\bPeer(?=\{\s*\.name)", text):
        peer = Reader(text[match.end() :]).value()
        kind = "approximate model" if peer["is_model"] == "true" else "exact emulation"
        yield f"`{peer['name']}`", peer["summary"], kind, peer["model_note"]


def table_of(tables: Tables, what: str) -> str:
    """A region's table as Markdown."""
    makers: dict[str, Callable[..., Iterator[tuple[str, ...]]]] = {
        "fields": fields,
        "metrics": metrics,
        "dcgm": dcgm,
        "history": history,
        "allocators": allocators,
    }
    name, *arguments = what.split()
    head, *lines = makers[name](tables, *arguments)
    if not lines:
        raise Unreadable(f"the table of figures has nothing for '{what}'")
    rule = "|---" * len(head) + "|"
    return "\n".join([_line(head), rule, *map(_line, lines)]) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def written(tables: Tables, document: str) -> str:
    """The document with all its tables as the figures have them."""

    def renewed(match: re.Match[str]) -> str:
        return f"{match['what']}{match['mark']}{table_of(tables, match['what'])}"

    return REGION.sub(renewed, document)


def main() -> int:
    sources = sorted(FIGURES.glob("*.[ch]pp"))
    tables = read_tables(path.read_text(encoding="utf-8") for path in sources)
    stale = 0
    regions = 0
    for name in DOCUMENTS:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        wanted = written(tables, text)
        regions += len(REGION.findall(text))
        if wanted == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            print(f"{name}: a table differs from the source: run tools/figures.py")
        else:
            path.write_text(wanted, encoding="utf-8")
    print(
        f"{regions} tables in {len(DOCUMENTS)} documents, {stale} documents {'stale' if '--check' in sys.argv else 'written'}"
    )
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())

"""docs/benchmarks-history.csv can be read by programs and refers to the sections of docs/benchmarks.md."""

import csv
import datetime
import re

from source_files import ROOT

DOCUMENT = (ROOT / "docs" / "benchmarks.md").read_text()
with (ROOT / "docs" / "benchmarks-history.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))


def test_the_columns_are_the_documented_ones() -> None:
    section = DOCUMENT.split("## Earlier figures")[1]
    documented = [
        name for row in re.findall(r"^\| (`.+`) \| ", section, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    ]
    assert list(ROWS[0]) == documented


def test_each_row_is_a_figure_of_a_section() -> None:
    sections = set(re.findall(r"^## (.+)$", DOCUMENT, re.MULTILINE))
    assert len(ROWS) > 50
    for row in ROWS:
        assert row["subject"] in sections
        assert row["case"]
        assert row["metric"]
        assert re.fullmatch(r"(about )?\d+(\.\d+)?", row["value"]), row
        assert not row["date"] or datetime.date.fromisoformat(row["date"]), row


def test_no_figure_is_there_twice() -> None:
    keys = [tuple(value for name, value in row.items() if name not in ("value", "note")) for row in ROWS]
    repeated = {key for key in keys if keys.count(key) > 1}
    assert {key[6] for key in repeated} <= {"step sums, vram ÷ native"}  # the smallest and the largest of a range

"""The documents that follow one thing through the code (docs/life-of-*.md) name files and symbols that exist.

A symbol in backticks must occur in the sources; `A::b` must be a member of `A`. Where a file is named right after a symbol, as in
"`A::b` (`src/pool/a.cpp`)", it must contain the symbol.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from source_files import CPP, ROOT, source_files

DOCUMENTS = sorted(path.name for path in (ROOT / "docs").glob("life-of-*.md"))
SYMBOL = r"[A-Za-z_]\w*(?:(?:::|\.)[A-Za-z_]\w*)*"
SPAN = re.compile(rf"`({SYMBOL})(?:\([^`]*\))?`")
FILE = r"[\w./-]+\.(?:cpp|hpp|py|h)"
SYMBOL_IN_FILE = re.compile(rf"`({SYMBOL})(?:\([^`]*\))?`(?: in |,? ?\(?)`({FILE})`")
# Names of PyTorch, of the example's tensors and files.
NOT_OURS = re.compile(r"(?:at::|torch\.|head\.|train\.|run\.).*")


@cache
def sources() -> dict[str, str]:
    """The text of each source of the program, the library and the package by its path; no tests."""
    files = source_files(*CPP, ".h", ".py")
    ours = [f for f in files if f.parts[0] in ("src", "include", "python") and not f.stem.endswith("_test")]
    return {str(path): (ROOT / path).read_text() for path in ours}


@cache
def words(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", sources()[path]))


def exists(symbol: str) -> bool:
    *scopes, name = re.split(r"::|\.", symbol)
    if not scopes or scopes[-1].islower():  # of a namespace or a variable
        return any(name in words(path) for path in sources())
    scope = scopes[-1]
    outside = re.compile(rf"\b{scope}::{name}\b")
    inside = re.compile(rf"\b(?:class|struct|union|enum class|namespace)\s+(?:\w+::)*{scope}\b")
    return any(
        outside.search(text) or (name in words(path) and inside.search(text)) for path, text in sources().items()
    )


def test_there_are_such_documents() -> None:
    assert DOCUMENTS == [
        "life-of-a-record.md",
        "life-of-a-sample.md",
        "life-of-an-allocation.md",
        "life-of-an-event.md",
    ]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_symbol_exists(document: str) -> None:
    text = (ROOT / "docs" / document).read_text()
    symbols = {symbol for symbol in SPAN.findall(text) if not NOT_OURS.match(symbol) and Path(symbol).suffix != ".md"}
    assert len(symbols) > 15
    assert {symbol for symbol in symbols if not exists(symbol)} == set()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_symbol_is_in_the_file_that_is_named_with_it(document: str) -> None:
    text = re.sub(r"\s+", " ", (ROOT / "docs" / document).read_text())
    named = SYMBOL_IN_FILE.findall(text)
    assert len(named) > 15
    wrong = [
        f"{symbol}: {path}"
        for symbol, path in named
        if re.split(r"::|\.", symbol)[-1] not in words(path if path in sources() else f"src/{path}")
    ]
    assert wrong == []


def test_a_symbol_that_is_gone_is_noticed() -> None:
    assert exists("Sources::read")
    assert exists("Slot::query_health")
    assert not exists("uses_by_pid")
    assert not exists("Sources::read_nothing")

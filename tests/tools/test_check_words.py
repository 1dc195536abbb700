"""The word checker finds refused words in texts, comments and names, and lets no number of remaining ones grow."""

import json

import pytest

from check_words import TABLE, Words
from source_files import ROOT

REAL = Words((ROOT / TABLE).read_text())
SMALL = """
[[refused]]
pattern = "(last|each) looks?"
write = "sample"
except = ["docs/optics.md"]

[[refused]]
pattern = "(?-i:kMost\\\\w*)"
write = "kMax…"

[remaining]
"src/" = 2
"""


def found(text: str, path: str = "docs/guide.md", words: Words = REAL) -> list[str]:
    return list(map(str, words.find(path, text)))


@pytest.mark.parametrize(
    ("text", "line", "refused"),
    [
        ("It answers from the last look.", 1, "last look"),
        ("// It answers from the last\n  // look.", 1, "last look"),
        ('fail("after the last "\n     "look");', 1, "last look"),
        ("# first\n# Whom it tells of alerts", 2, "Whom"),
        ("bool told = false;", 1, "told"),
        ("constexpr int kMostBytes = 1;", 1, "kMostBytes"),
    ],
)
def test_a_refused_word_is_named_with_its_line(text: str, line: int, refused: str) -> None:
    assert found(text)[0].startswith(f'docs/guide.md:{line}: "{refused}": write ')


@pytest.mark.parametrize(
    "text",
    [
        "It answers from the last sample.",
        "vram_exporter_look_overdue_seconds, look_ns, was_told, Boards",
        "The function looks for a file. Let the user look at it; the two cannot be told apart.",
        "libraries that stand in for drivers",
        "at most kmost bytes",
    ],
)
def test_other_words_pass(text: str) -> None:
    assert found(text) == []


def test_an_excepted_file_may_use_a_word_and_others_may_not() -> None:
    words = Words(SMALL)
    assert found("each look", "docs/optics.md", words) == []
    assert found("each look kMost", "docs/other.md", words) == [
        'docs/other.md:1: "each look": write sample',
        'docs/other.md:1: "kMost": write kMax…',
    ]


@pytest.mark.parametrize(("count", "is_allowed"), [(2, True), (3, False)])
def test_the_number_of_remaining_words_may_not_grow(count: int, is_allowed: bool) -> None:
    words = Words(SMALL)
    problems = list(words.problems(words.find("src/a.cpp", "each look\n" * count)))
    assert (problems == []) == is_allowed
    if not is_allowed:
        assert problems[0].startswith("src/: 3 words of tools/words.toml, at most 2 are allowed")


def test_where_none_may_remain_each_word_is_a_problem() -> None:
    words = Words(SMALL)
    assert list(words.problems(words.find("docs/a.md", "each look\nlast look"))) == [
        'docs/a.md:1: "each look": write sample',
        'docs/a.md:2: "last look": write sample',
    ]


def test_no_suggestion_is_refused_itself() -> None:
    for entry in REAL.refused:
        assert found(entry.write) == [], entry.pattern


def test_every_exception_is_used() -> None:
    for entry in REAL.refused:
        alone = Words(f"[[refused]]\npattern = {json.dumps(entry.pattern)}\nwrite = ''\n")
        for path in entry.excepted:
            assert found((ROOT / path).read_text(), path, alone), f"{path} no longer needs to be excepted"

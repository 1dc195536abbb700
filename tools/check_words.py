#!/usr/bin/env python3
"""Refuses the words and phrases of tools/words.toml in all texts and identifiers of this repository.

check_words.py            checks everything; where words remain, their number may only decrease
check_words.py PATH...    lists every such word in these files and folders
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from source_files import ROOT, source_files

TABLE = Path("tools/words.toml")
CHECKED = (
    ".md",
    ".py",
    ".ts",
    ".tsx",
    ".cpp",
    ".hpp",
    ".h",
    ".cu",
    ".cuh",
    ".in",
    ".toml",
    ".yml",
    ".yaml",
    ".json",
    ".sh",
    ".cmake",
    ".txt",
    ".service",
    ".timer",
    "Makefile",
    "Containerfile",
)
# The list itself and its tests; data of tests, which quotes other programs; output of vram, whose source is checked; licences.
NOT_CHECKED = (
    str(TABLE),
    "tests/tools/test_check_words.py",
    "tests/data/",
    "tests/golden/",
    "tools/npm/",
    "web/package-lock.json",
    "CODE_OF_CONDUCT.md",
)
# White space, and the marks between two lines of one comment or string literal.
GAP = r'(?:[\s"#*]|//)+'


@dataclass(frozen=True)
class Refused:
    pattern: str
    write: str
    excepted: frozenset[str]  # files


@dataclass(frozen=True)
class Found:
    path: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.words}": write {self.instead}'


class Words:
    """A table of words: `refused` ones, and the number of them that `remaining` allows below each path.

    Args:
        table: The text of a table in the format of words.toml.
    """

    def __init__(self, table: str) -> None:
        read = tomllib.loads(table)
        self.refused = [
            Refused(entry["pattern"], entry["write"], frozenset(entry.get("except", ()))) for entry in read["refused"]
        ]
        # One expression for all, which is far faster than one for each. A group is named by the place of its entry.
        choices = "|".join(f"(?P<_{place}>{entry.pattern})" for place, entry in enumerate(self.refused))
        self._pattern = re.compile(rf"\b(?:{choices.replace(' ', GAP)})\b", re.IGNORECASE)
        self.remaining: dict[str, int] = read.get("remaining", {})

    def find(self, path: str, text: str) -> Iterator[Found]:
        """Yields each refused word of a file, in order."""
        for match in self._pattern.finditer(text):
            entry = self.refused[next(int(name[1:]) for name, words in match.groupdict().items() if words is not None)]
            if path not in entry.excepted:
                words = re.sub(GAP, " ", match.group())
                yield Found(path, text.count("\n", 0, match.start()) + 1, words, entry.write)

    def problems(self, found: Iterable[Found]) -> Iterator[str]:
        """Yields one line for each word where none may remain, and one for each path where too many do."""
        counts: dict[str, int] = defaultdict(int)
        for one in found:
            below = next((path for path in self.remaining if one.path.startswith(path)), None)
            if below is None:
                yield str(one)
            else:
                counts[below] += 1
        for path, count in counts.items():
            if count > self.remaining[path]:
                yield (
                    f"{path}: {count} words of {TABLE}, at most {self.remaining[path]} are allowed: "
                    f"`tools/check_words.py {path}` lists them"
                )


def main(paths: list[str]) -> int:
    words = Words((ROOT / TABLE).read_text())
    files = [str(path) for path in source_files(*CHECKED)]
    checked = [path for path in files if not path.startswith(NOT_CHECKED) and path.startswith(tuple(paths) or "")]
    found = [one for path in checked for one in words.find(path, (ROOT / path).read_text())]
    lines = list(map(str, found)) if paths else list(words.problems(found))
    remain = f", {len(found)} of {sum(words.remaining.values())} remain" if words.remaining and not paths else ""
    print("\n".join([*lines, f"{len(checked)} files, {len(lines)} words to replace{remain}"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

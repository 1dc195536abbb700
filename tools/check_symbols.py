#!/usr/bin/env python3
"""Checks that every name of code that a document or a comment uses exists.

A name is checked if it
- is in backticks, in a comment, a docstring or a document for developers: `Arena::find_free`;
- is followed by (), or contains an underscore, or capitals inside, in a comment of C++ or Python: find_free(), FreeIndex;
- is one of vram's interface, in backticks in any document: `vram.enable()`, `vram_alloc`, `VRAM_POOL`.

A plain name must occur in code; of a qualified one, `A::b`, the member must occur where `A` is declared. A document that names a
file with a name, "`Pool::try_allocate` (`src/pool/pool.cpp`)", must find it there. Names of other projects are not checked if they are qualified
with a name that is not declared here (`torch.cuda.Stream`, std::pmr) or in double quotes. check_paths.py checks files' names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import PurePosixPath

import check_paths
from source_files import ROOT, source_files

NAME = r"[A-Za-z_]\w*"
QUALIFIED = rf"{NAME}(?:(?:::|\.)~?{NAME})*"
IN_BACKTICKS = re.compile(rf"`({QUALIFIED})(?:\([^`]*\))?`")
FILE = r"[\w./-]+\.(?:cpp|hpp|py|h)"
IN_FILE = re.compile(rf"`({QUALIFIED})(?:\([^`]*\))?`(?:\s+in\s+|,?\s?\(?)`({FILE})`")
# Not after a character that makes it part of a path, an option, a URL or a quoted text.
BARE = rf"(?<![\w`.:/<>$~%@\"'-])({QUALIFIED})"
CALLED = re.compile(rf"{BARE}\(\)")
COMPOUND = re.compile(rf"{BARE}(?![\w/\"'*-])")
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+_?")
CAMEL_CASE = re.compile(r"k?(?:[A-Z][a-z0-9]+){2,}|k[A-Z][a-z0-9]+")
DECLARED = re.compile(rf"\b(?:class|struct|union|enum class|namespace|concept|using)\s+(?:\w+::)*({NAME})")
IMPORTED = re.compile(rf"^\s*(?:import|from)\s+({NAME})", re.MULTILINE)
PUBLIC = re.compile(r"(?:vram\.|vram_|VRAM_)\w.*")
DEVELOPER_DOCUMENTS = ("docs/architecture.md", "docs/life-of-*.md", "CONTRIBUTING.md", "src/*.md", "tests/*.md")
WORD = re.compile(r"\w+")


@dataclass
class Code:
    """The names that occur in code, that is outside comments, docstrings and documents.

    Attributes:
        words: All of them, and the parts of the names of files.
        files: The words of each file, by its path.
        members: For the scopes that are declared here (classes, enums, namespaces), the words of the files that declare or define
            them.
    """

    words: set[str] = field(default_factory=set)
    files: dict[PurePosixPath, set[str]] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)

    @cached_property
    def suffixes(self) -> set[str]:
        return {path.suffix for path in self.files}

    def is_file(self, name: str) -> bool:
        return PurePosixPath(name).suffix in self.suffixes

    def is_missing_in(self, name: str, file: str, by: PurePosixPath) -> bool:
        """Whether a file, which a document names relative to the root, to src/ or to the document's folder, lacks this name."""
        paths = [folder / file for folder in (PurePosixPath(), PurePosixPath("src"), by.parent)]
        last = re.split(r"::~?|\.", name)[-1]
        return not self.is_file(name) and any(last not in self.files.get(path, {last}) for path in paths)

    def has(self, name: str) -> bool:
        """Whether the name exists. Names of other projects count as existing, and those of files."""
        *scopes, last = re.split(r"::~?|\.", name)
        if not scopes:
            return last in self.words or (last.startswith("_") and any(word.endswith(last) for word in self.words))
        if scopes[0] not in self.members or self.is_file(name):
            return True
        innermost = next(scope for scope in reversed(scopes) if scope in self.members)
        return last in self.members[innermost]


def read_code(files: Iterable[tuple[PurePosixPath, str]]) -> Code:
    """Returns the names in the code of these files, given by their paths and contents."""
    code = Code()
    defined: dict[str, set[str]] = {}
    imported: set[str] = set()
    for path, content in files:
        if path.suffix == ".md":
            continue
        for start, text in check_paths.texts(path, content):
            content = content[:start] + " " * len(text) + content[start + len(text) :]
        words = set(WORD.findall(content))
        code.words |= words | set(path.parts) | {path.stem}
        code.files[path] = words
        declared = set(DECLARED.findall(content))
        if path.parts[:2] == ("python", "vram"):
            declared.add("vram")
        if path.suffix == ".py":
            imported.update(IMPORTED.findall(content))
        for scope in declared:
            code.members.setdefault(scope, set())
        for scope in declared | set(re.findall(rf"\b({NAME})::~?{NAME}", content)):
            defined.setdefault(scope, set()).update(words)
    for scope, members in code.members.items():
        members |= defined[scope]
    for package in imported - {"vram"}:
        code.members.pop(package, None)
    return code


def names(path: PurePosixPath, text: str) -> Iterator[tuple[int, str]]:
    """Yields the offset and the text of each name that is checked in a text of the file."""
    is_document = path.suffix == ".md"
    is_for_developers = not is_document or any(fnmatch(str(path), pattern) for pattern in DEVELOPER_DOCUMENTS)
    for match in IN_BACKTICKS.finditer(text):
        if is_for_developers or "::" in match[1] or PUBLIC.fullmatch(match[1]):
            yield match.start(), match[1]
    if is_document:
        return
    for match in CALLED.finditer(text):
        yield match.start(), match[1]
    for match in COMPOUND.finditer(text):
        is_type = path.suffix != ".py" and CAMEL_CASE.fullmatch(match[1])  # Python's comments name projects: NumPy
        if "::" in match[1] or SNAKE_CASE.fullmatch(match[1]) or is_type:
            yield match.start(), match[1]


def problems(path: PurePosixPath, content: str, code: Code) -> Iterator[str]:
    """Yields one line for each name in the texts of a file that no code has."""
    found: dict[tuple[int, str], None] = {}
    for start, text in check_paths.texts(path, content):
        for offset, name in names(path, text):
            if not code.has(name):
                found[content.count("\n", 0, start + offset) + 1, name] = None
    for line, name in found:
        yield f"{path}:{line}: {name}: no code has this name"
    for name, file in IN_FILE.findall(content) if path.suffix == ".md" else ():
        if code.is_missing_in(name, file, path):
            yield f"{path}: {name}: {file} does not have this name"


def is_left_out(path: PurePosixPath) -> bool:
    return str(path).startswith(check_paths.NOT_CHECKED)


def main() -> int:
    paths = map(PurePosixPath, source_files(""))
    contents = {
        path: (ROOT / path).read_text(errors="replace")
        for path in paths
        if path.suffix == ".py" or not is_left_out(path)
    }
    code = read_code(contents.items())
    checked = [path for path in contents if path.suffix in (".md", ".py", *check_paths.CODE) and not is_left_out(path)]
    found = [line for path in checked for line in problems(path, contents[path], code)]
    print("\n".join([*found, f"{len(checked)} files, {len(found)} names that do not exist"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

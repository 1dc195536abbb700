#!/usr/bin/env python3
"""Checks that every file and folder of this repository that a document or a comment in C++ or Python names exists.

A path is checked if it begins with a folder of the repository ("docs/json.md", "trace/import/", "watch/boards") or is the
name of a C++, CUDA, CMake or Markdown file, or of a test in Python ("heap.hpp"). It may be relative to the root, to src/, to the
folder of the file that names it or to a parent of that folder, and may omit the extension. check_links.py checks links in
Markdown files.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import PurePosixPath

from cpp_text import comments
from source_files import CPP, ROOT, source_files

# Not after a character that makes it part of a longer name: a URL, an absolute path, a path with a variable.
PATH = re.compile(r"(?<![\w./<>$~*:%-])(?:\.\./)*(?:[A-Za-z_][\w.+-]*/)+(?:[A-Za-z_*<{][\w.+*<>{}-]*)?")
FILE_NAME = re.compile(r"(?<![\w./<>$~*:%-])(?:[a-z_][\w-]*\.(?:hpp|cpp|cuh?|cmake|md)|test_\w+\.py)\b(?![\w/(])")
PLACEHOLDER = re.compile(r"NAME|[*<>{}]")
MARKDOWN_LINK = re.compile(r"\]\([^)\s]*\)")
# The nodes of Python's syntax tree that may have a docstring; examples in it, with their output, up to an empty line.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
EXAMPLE = re.compile(r"^[ \t]*>>> .*?(?=^[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
CODE = (*CPP, ".h", ".cu", ".cuh")
# Test data quotes other projects. The change log uses the names that files had when a version was released.
NOT_CHECKED = ("tests/data/", "CHANGELOG.md")


class Tree:
    """The files and folders of the repository.

    `folder_names` are the names with which a path may begin: all folders but those of test data.
    """

    def __init__(self, files: Iterable[PurePosixPath]) -> None:
        self.known: set[str] = set()
        self.folder_names: set[str] = set()
        for file in files:
            self._add(file)
            self._add(file.with_suffix(""))
            for folder in file.parents:
                self._add(folder)
                if folder.parts[:1] != ("tests",) or len(folder.parts) == 1:
                    self.folder_names.add(folder.name)

    def _add(self, path: PurePosixPath) -> None:
        parts = path.parts
        self.known.update("/".join(parts[first:]) for first in range(len(parts)))

    def has(self, named: str, by: PurePosixPath) -> bool:
        if not named.startswith("../"):
            return named in self.known
        folder = by.parent
        while named.startswith("../"):
            named, folder = named[3:], folder.parent
        return str(folder / named) in self.known


def named_paths(text: str, folder_names: set[str]) -> Iterator[tuple[int, str]]:
    """Yields the offset and the text of each path in `text` that begins with one of the folders, and of each file name."""
    for match in PATH.finditer(text):
        path = match.group().rstrip(".").rstrip("/")
        first = path.removeprefix("../").split("/")[0]
        if not PLACEHOLDER.search(path) and (first in folder_names or FILE_NAME.fullmatch(path.split("/")[-1])):
            yield match.start(), path
    for match in FILE_NAME.finditer(text):
        if not PLACEHOLDER.search(match.group()):
            yield match.start(), match.group()


def python_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yields the offset and the text of every comment and docstring, without the examples."""
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield starts[token.start[0] - 1] + token.start[1], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            docstring = node.body[0]
            lines_of_it = lines[docstring.lineno - 1 : docstring.end_lineno]
            yield starts[docstring.lineno - 1], EXAMPLE.sub(_blank, "".join(lines_of_it))


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def texts(path: PurePosixPath, content: str) -> list[tuple[int, str]]:
    """Returns the parts of a file that are written for people, with their offsets."""
    if path.suffix == ".md":
        return [(0, content)]
    if path.suffix == ".py":
        return list(python_comments(content))
    return list(comments(content)) if path.suffix in CODE else []


def problems(path: PurePosixPath, text: str, tree: Tree) -> Iterator[str]:
    """Yields one line for each path in a document, or in the comments of a C++ or Python file, that does not exist."""
    for start, piece in texts(path, text):
        for offset, named in named_paths(MARKDOWN_LINK.sub(_blank, piece), tree.folder_names):
            if not tree.has(named, path):
                line = text.count("\n", 0, start + offset) + 1
                yield f"{path}:{line}: {named}: the repository has no such file or folder"


def main() -> int:
    tree = Tree(PurePosixPath(path) for path in source_files(""))
    checked = [path for path in source_files(".md", ".py", *CODE) if not str(path).startswith(NOT_CHECKED)]
    found = [line for path in checked for line in problems(PurePosixPath(path), (ROOT / path).read_text(), tree)]
    print("\n".join([*found, f"{len(checked)} files, {len(found)} paths that do not exist"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

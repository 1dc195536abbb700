#!/usr/bin/env python3
"""Refuses files and functions that are too long to read.

A file above 600 lines or a function above 80 is refused. A file above 400 or a function above 60 needs a line
`size: <reason>` in a comment (of that file; for a function, inside it or right above it).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from cpp_text import Function, functions
from source_files import CPP, ROOT, source_files

FILE_LIMIT, FILE_NEEDS_REASON = 600, 400
FUNCTION_LIMIT, FUNCTION_NEEDS_REASON = 80, 60
REASON = re.compile(r"(?://|#)\s*size: \S+")


def python_functions(text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Function(node.name, node.lineno, node.end_lineno or node.lineno)


def problems(path: Path, text: str) -> Iterator[str]:
    """Yields one line for each problem: a file or function that is too long."""
    lines = text.splitlines()
    if len(lines) > FILE_LIMIT:
        yield f"{path}: {len(lines)} lines; {FILE_LIMIT} is the limit: split it"
    elif len(lines) > FILE_NEEDS_REASON and not REASON.search(text):
        yield f"{path}: {len(lines)} lines; above {FILE_NEEDS_REASON} it needs a line '// size: <reason>'"
    found: Iterable[Function] = functions(text) if path.suffix in CPP else ()
    if path.suffix == ".py":
        found = python_functions(text)
    for function in found:
        where = f"{path}:{function.first_line}: {function.name}"
        if function.lines > FUNCTION_LIMIT:
            yield f"{where} has {function.lines} lines; {FUNCTION_LIMIT} is the limit: split it"
        elif function.lines > FUNCTION_NEEDS_REASON:
            around = "\n".join(lines[max(0, function.first_line - 4) : function.last_line])
            if not REASON.search(around):
                yield f"{where} has {function.lines} lines; above {FUNCTION_NEEDS_REASON} it needs '// size: <reason>'"


def main() -> int:
    checked = source_files(*CPP, ".py", ".cmake", ".sh")
    found = [line for path in checked for line in problems(path, (ROOT / path).read_text())]
    print("\n".join([*found, f"{len(checked)} files, {len(found)} too long"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

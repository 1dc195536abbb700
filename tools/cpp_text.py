"""Finds comments and functions in C++ text, without parsing it: blanks comments and literals, and matches braces.

A brace begins a function if the text before it has a parameter list and is neither a namespace, a type nor an
initializer. Braces inside functions only nest. The code must be formatted by clang-format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SKIPPED = re.compile(
    r"""
      //[^\n]*
    | /\*.*?\*/
    | R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"
    | "(?:\\.|[^"\\\n])*"
    | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'
    | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_CONTAINER = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:typedef\s+)?(?:namespace|class|struct|union|enum|extern)\b"
)
_CONSTRUCTOR_LIST = re.compile(r"\)\s*(?:noexcept(?:\([^()]*\))?\s*)?:(?!:)")


@dataclass(frozen=True)
class Function:
    name: str
    first_line: int  # of its signature
    last_line: int  # of its closing brace

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


def blanked(text: str) -> str:
    """Returns the text with comments, literals and directives replaced by spaces; all offsets stay the same."""

    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())

    return _SKIPPED.sub(spaces, text)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yields the offset and the text of every comment, in order."""
    for match in _SKIPPED.finditer(text):
        if match.group().startswith(("//", "/*")):
            yield match.start(), match.group()


def functions(text: str) -> Iterator[Function]:
    """Yields every function that is not inside another one, in order."""
    code = blanked(text)
    position = head_start = 0
    while (position := _next_mark(code, position)) < len(code):
        if code[position] != "{":
            head_start = position + 1
        else:
            head = code[head_start:position].strip()
            if _is_initializer(head):
                position = _closing(code, position)  # the head continues after it
            elif _is_function(head):
                end = _closing(code, position)
                start = head_start + len(code[head_start:position]) - len(code[head_start:position].lstrip())
                yield Function(_name(head), _line(code, start), _line(code, end))
                position = end
                head_start = end + 1
            else:  # a namespace or a type: look inside
                head_start = position + 1
        position += 1


def _next_mark(code: str, position: int) -> int:
    """Returns the offset of the next { } or ; outside parentheses."""
    depth = 0
    for index in range(position, len(code)):
        mark = code[index]
        if mark in "([":
            depth += 1
        elif mark in ")]":
            depth -= 1
        elif depth <= 0 and mark in "{};":
            return index
    return len(code)


def _is_initializer(head: str) -> bool:
    if _CONTAINER.match(head):
        return False
    if re.search(r"(?<!operator)=$", head):
        return True
    constructor = _CONSTRUCTOR_LIST.search(head)
    # Foo() : a_{1} — the brace follows a member's name, so it is not the body.
    if constructor:
        return bool(re.search(r"[\w>]$", head))
    return "(" not in head  # int x{1};


def _is_function(head: str) -> bool:
    return "(" in head and not _CONTAINER.match(head)


def _closing(code: str, opening: int) -> int:
    depth = 0
    for index in range(opening, len(code)):
        if code[index] == "{":
            depth += 1
        elif code[index] == "}":
            depth -= 1
            if depth == 0:
                return index
    return len(code) - 1


def _name(head: str) -> str:
    called = re.search(r"((?:\w+::)*(?:operator\s*[^\s\w]+?|~?\w+))\s*\(([^()]*)", head)
    if not called:
        return head.split("(")[0].split()[-1]
    macro = re.fullmatch(r"[A-Z_]+", called[1])  # TEST(Suite, case)
    return f"{called[1]}({called[2].strip()})" if macro else called[1]


def _line(code: str, position: int) -> int:
    return code.count("\n", 0, position) + 1

"""The reference of the C and C++ interfaces, from the headers of include/vram and their comments.

A header begins with a comment about all of it. A comment that is a line of dashes with a title begins a section. Any other
comment belongs to the declaration that follows it; comments within a declaration are shown as part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pages import ROOT

HEADERS = ROOT / "include/vram"
SKIPPED = re.compile(
    r"#(ifndef|ifdef|endif|include|if|else)\b.*|extern \"C\" \{|\}|#define (VRAM_\w+_H|VRAM_\w*API|ARROW_C_\w+)\b.*"
)
NAME = re.compile(
    r"(?:typedef .*?[ *](?P<type>\w+)|#define (?P<macro>\w+).*|(?P<struct>struct \w+).*|[^(]*?[ *](?P<function>\w+)\(.*);?",
    re.S,
)


@dataclass(frozen=True)
class Part:
    """A section's title, or a declaration with the comment above it."""

    title: str
    comment: str
    code: str = ""


def pages() -> dict[str, str]:
    """Returns the page of each header, in the order of their names; that of vram.h is the first."""
    headers = sorted(HEADERS.glob("*.h*"), key=lambda path: (path.name != "vram.h", path.name))
    return {f"c/{header.stem}.md": page(header) for header in headers}


def page(header: Path) -> str:
    text = header.read_text(encoding="utf-8")
    if header.suffix == ".hpp":
        return cpp_page(header.name, text)
    about, *found = parts(text)
    out = [f"# vram/{header.name}", "", markdown(about.comment), ""]
    for part in found:
        if part.code:
            out += [f"### {part.title}", "", f"```c\n{part.code}\n```", "", markdown(part.comment), ""]
        else:
            out += [f"## {part.title}", ""]
    return "\n".join(out)


def cpp_page(name: str, text: str) -> str:
    """The comment at the beginning of a header, and the header: its class is short, and read best with its comments."""
    lines = text.splitlines()
    count = next(index for index, line in enumerate(lines) if not line.startswith("//"))
    about = "\n".join(line.removeprefix("//").removeprefix(" ") for line in lines[:count])
    code = "\n".join(lines[count:])
    return f"# vram/{name}\n\n{markdown(about)}\n\n```cpp\n{code.strip()}\n```\n"


def parts(text: str) -> Iterator[Part]:
    """Yields the comment about the header, then sections and declarations in their order."""
    comment, code, is_first = "", "", True
    for piece in re.findall(r"/\*.*?\*/|[^\n/]+|\n|/", text, re.S):
        is_comment = piece.startswith("/*")
        if is_comment and not code.strip():
            comment = body(piece)
            if is_first:
                yield Part("", comment)
                is_first, comment = False, ""
            elif match := re.match(r"-{20,}\s*(.*)", comment, re.S):
                yield Part(" ".join(match[1].split()).capitalize(), "")
                comment = ""
            continue
        code += piece
        if piece == "\n" and SKIPPED.fullmatch(code.strip()):
            comment, code = "", ""
        elif piece == "\n" and is_whole(code):
            yield Part(name_of(code.strip()), comment, code.strip())
            comment, code = "", ""


def is_whole(code: str) -> bool:
    """Whether a declaration ends here."""
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S).strip()
    if bare.startswith("#"):
        return not bare.endswith("\\")
    return bare.endswith(";") and bare.count("{") == bare.count("}") and bare.count("(") == bare.count(")")


def name_of(code: str) -> str:
    bare = re.sub(r"/\*.*?\*/|\{.*\}", "", code, flags=re.S).strip().removesuffix(";").strip()
    if bare.startswith("typedef") and (pointer := re.search(r"\(\*(\w+)\)\(", bare)):
        return pointer[1]
    match = NAME.fullmatch(bare)
    if match is None:
        raise ValueError(f"expected a declaration of C, found {code!r}")
    return next(name for name in match.groups() if name)


def body(comment: str) -> str:
    """The text of a comment without its marks."""
    lines = comment.removeprefix("/*").removesuffix("*/").splitlines()
    return "\n".join(re.sub(r"^ \* ?", "", line) if index else line.strip() for index, line in enumerate(lines)).strip(
        "\n "
    )


def markdown(text: str) -> str:
    """A comment as Markdown: "  - " begins an item, other lines indented by four spaces are code."""
    out: list[str] = []
    kind = ""
    for line in text.splitlines():
        if not line.strip():
            now = ""
        elif re.match(r" {1,2}- ", line):
            now = "item"
        elif line.startswith("    "):
            now = "item text" if kind.startswith("item") else "code"
        else:
            # "VRAM_NOT_SUPPORTED: …" and "options: …" begin a paragraph.
            now = "line" if kind == "text" and re.match(r"[a-z_, ]+: |VRAM_[A-Z_]+: ", line) else "text"
        if now == "line" or now.partition(" ")[0] != kind.partition(" ")[0]:
            out.append("")
        out.append(line if now == "code" else inline(re.sub(r"^ {1,2}(?=- )", "", line) if now == "item" else line))
        kind = "text" if now == "line" else now
    return "\n".join(out).strip("\n")


def inline(text: str) -> str:
    """Names with underscores, and with parentheses, are code."""
    parts = re.split(r"(`[^`]*`)", text)
    name = re.compile(r"(?<![\w:`])(\*?[\w:]*_\w*\w(?:\(\))?|\w+\(\))(?![\w`]|\.so)")
    return "".join(
        part if part.startswith("`") else name.sub(r"`\1`", re.sub(r"([<>*\[\]#])", r"\\\1", part)) for part in parts
    )

"""The reference of the commands, from the manual pages that the program writes from its tables of options."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field

from pages import ROOT

PROGRAM = ROOT / "build/release/src/vram"
ESCAPE = re.compile(r"\\(?:f[BIR]|\[u(?P<code>[0-9A-F]+)\]|(?P<name>\(\w\w|.))")
CHARACTERS = {"e": "\\", "&": "", "(aq": "'", "(ha": "^", "(ti": "~", "(ga": "`"}


@dataclass
class Section:
    """A section of a manual page: a text, or entries of a term and its text."""

    title: str
    text: str = ""
    entries: list[tuple[str, str]] = field(default_factory=list)


def pages(language: str) -> dict[str, str]:
    """Returns the page of each command, first that of the program.

    Raises:
        FileNotFoundError: The program was not built.
    """
    if not PROGRAM.is_file():
        raise FileNotFoundError(
            f"{PROGRAM} is missing: run `make build`, its manual pages become the reference of commands"
        )
    program = sections(manual(language))
    names = re.findall(r"^vram-(\w+)\(1\)$", "\n".join(term for part in program for term, _ in part.entries), re.M)
    found = {"commands/vram.md": page("vram", program)}
    return found | {f"commands/{name}.md": page(f"vram {name}", sections(manual(language, name))) for name in names}


def manual(language: str, *command: str) -> str:
    environment = os.environ | {"LC_ALL": "zh_CN.UTF-8" if language == "zh" else "C.UTF-8"}
    printed = subprocess.run(
        [PROGRAM, "help", "--man", *command], env=environment, capture_output=True, check=True, timeout=60
    )
    return printed.stdout.decode()


def plain(roff: str) -> str:
    """Returns a line of a manual page without the escapes of roff."""

    def character(match: re.Match[str]) -> str:
        if match["code"]:
            return chr(int(match["code"], 16))
        return CHARACTERS.get(match["name"], match["name"]) if match["name"] else ""

    return ESCAPE.sub(character, roff)


def sections(roff: str) -> list[Section]:
    """Returns the sections of a manual page as the program writes it: .TH, .SH, .TP and lines of text."""
    found: list[Section] = []
    lines = iter(roff.splitlines())
    for line in lines:
        if line.startswith(".SH "):
            found.append(Section(plain(line[4:].strip('"'))))
        elif line == ".TP":
            found[-1].entries.append((plain(next(lines)), ""))
        elif line.startswith((".TH ", ".nh")):
            continue
        elif found and found[-1].entries:
            term, text = found[-1].entries[-1]
            found[-1].entries[-1] = (term, f"{text} {plain(line)}".strip())
        elif found:
            found[-1].text = f"{found[-1].text}\n{plain(line)}".strip()
    return found


def page(name: str, manual_page: list[Section]) -> str:
    summary, synopsis, *others, last = manual_page
    about = summary.text.partition(" - ")[2]
    out = [f"# {name}", "", escaped(about[:1].upper() + about[1:]), "", "```text", synopsis.text, "```", ""]
    for section in others if name != "vram" else [*others, last]:  # the last one refers to the program's page
        if section is not others[0] or name == "vram":
            out += [f"## {section.title.capitalize()}", ""]
        if section.text:
            out += [escaped(section.text), ""]
        if section.entries and section.entries[0][0].startswith("vram "):
            out += ["```console"]
            out += [f"$ {command}\n    # {meaning}" for command, meaning in section.entries]
            out += ["```", ""]
        elif section.entries:
            out += ["| | |", "|---|---|"]
            out += [f"| {term_cell(term)} | {escaped(text)} |" for term, text in section.entries] + [""]
    return "\n".join(out)


def term_cell(term: str) -> str:
    if match := re.fullmatch(r"vram-(\w+)\(1\)", term):
        return f"[vram {match[1]}]({match[1]}.md)"
    return (
        "<code>"
        + term.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;").replace(" ", "&nbsp;")
        + "</code>"
    )


def escaped(text: str) -> str:
    """The text with the marks of Markdown as characters; backticks remain, because the program's texts use them as here."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part.replace("|", "\\|") if part.startswith("`") else re.sub(r"([*_\[\]<>#|])", r"\\\1", part) for part in parts
    )

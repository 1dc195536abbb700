#!/usr/bin/env python3
"""Write python/vram/_prototypes.py: the functions, structs and constants of include/vram/*.h for ctypes.

Run it after a change of a header. It reads the kinds of declarations that these headers consist of. Anything else is an
error, so nothing is guessed; tests/package/test_prototypes.py compares the layout of the structs with the compiler's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "python" / "vram" / "_prototypes.py"
SCALARS = {
    "char": "c_char",
    "double": "c_double",
    "int": "c_int",
    "int64_t": "c_int64",
    "size_t": "c_size_t",
    "uint16_t": "c_uint16",
    "uint32_t": "c_uint32",
    "uint64_t": "c_uint64",
}
LIMITS = {"UINT32_MAX": (1 << 32) - 1, "UINT64_MAX": (1 << 64) - 1}
_HEAD = (
    '"""The functions, structs and constants of include/vram/*.h. Written by tools/prototypes.py; do not edit."""\n\n'
    "# size: every function and struct of the headers\n\n"
)


class HeaderError(Exception):
    """A header contains a declaration that this reader does not know."""


class Declarations:
    """What the headers declare; types as expressions of ctypes."""

    def __init__(self, folder: Path) -> None:
        self.constants: dict[str, int] = {}
        self.structs: dict[str, list[tuple[str, str]]] = {}
        self.functions: dict[str, tuple[str, list[str]]] = {}  # of libvram.so
        self.report_functions: dict[str, tuple[str, list[str]]] = {}  # of libvram_report.so
        self._types = dict(SCALARS)
        self._opaque = {"void"}  # known by pointers only
        self._read: set[Path] = set()
        for header in sorted(folder.glob("*.h")):
            self._read_header(header)

    def _read_header(self, header: Path) -> None:
        if header in self._read:
            return
        self._read.add(header)
        text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.DOTALL)
        text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", text, flags=re.DOTALL)
        guarded = re.fullmatch(r"\s*#ifndef (\w+)\n#define \1\n(.*)#endif\s*", text, re.DOTALL)
        if guarded is None:
            raise HeaderError(f"{header.name}: expected an include guard around the whole header")
        lines = [line.rstrip() for line in guarded[2].splitlines()]
        for line in lines:
            if line.startswith("#"):
                self._directive(line, header.parent)
        for declaration in _declarations("\n".join(line for line in lines if not line.startswith("#"))):
            self._declare(declaration)

    def _directive(self, line: str, folder: Path) -> None:
        included = re.fullmatch(r"#include <(vram/)?(\w+\.h)>", line)
        defined = re.fullmatch(r"#define (VRAM_\w+) (\w+)", line)
        if included is not None:
            if included[1]:
                self._read_header(folder / included[2])
        elif defined is not None:
            self.constants[defined[1]] = _number(defined[2])
        elif not re.match(r"#define VRAM_(REPORT_)?API |#(ifndef|define) ARROW_\w+( \d+)?$|#endif$", line):
            raise HeaderError(f"unknown directive: {line}")

    def _declare(self, text: str) -> None:
        if match := re.fullmatch(r"typedef struct (\w+) \1", text):
            self._opaque.add(match[1])
        elif match := re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", text):
            self._types[match[1]] = class_name(match[1])
            self.structs[match[1]] = [self._declarator(member) for member in _declarations(match[2])]
        elif match := re.fullmatch(r"struct (Arrow\w+) \{(.*)\}", text):
            self._opaque.add(match[1])  # its readers and writers are libraries
            self.structs[match[1]] = [self._declarator(member) for member in _declarations(match[2])]
        elif match := re.fullmatch(r"typedef enum (\w+) \{(.*)\} \1", text):
            self._types[match[1]] = "c_int"
            self._enumerate(match[2])
        elif match := re.fullmatch(r"typedef (.+)", text):
            kind, name = self._declarator(match[1])
            self._types[name] = kind
        elif match := re.fullmatch(r"VRAM_(REPORT_)?API (.+?)\((.*)\)", text):
            kind, name = self._declarator(match[2])
            functions = self.report_functions if match[1] else self.functions
            functions[name] = kind, self._parameters(match[3])
        else:
            raise HeaderError(f"unknown declaration: {text}")

    def _enumerate(self, text: str) -> None:
        for item in text.strip().rstrip(",").split(","):
            match = re.fullmatch(r"(VRAM_\w+) = (\d+)", item.strip())
            if match is None:
                raise HeaderError(f"expected NAME = number in an enum, found: {item.strip()}")
            self.constants[match[1]] = int(match[2])

    def _parameters(self, text: str) -> list[str]:
        if text == "void":
            return []
        parameters = re.split(r",\s*(?![^()]*\))", text)  # not at the commas of a function pointer
        kinds = [self._declarator(parameter)[0] for parameter in parameters]
        if any(" * " in kind for kind in kinds):
            raise HeaderError(f"an array as a parameter: {text}")
        return kinds

    def _declarator(self, text: str) -> tuple[str, str]:
        """Return the type and the name of a member, a parameter, a function or a typedef."""
        text = text.strip()
        if match := re.fullmatch(r"(.+?) ?\(\*(\w+)\)\((.*)\)", text):
            result, _ = self._declarator(f"{match[1]} result")
            return f"CFUNCTYPE({', '.join([result, *self._parameters(match[3])])})", match[2]
        match = re.fullmatch(r"(?:const )?(?:struct )?(\w+)(\**)(?: (\w+))?(?:\[(\w+)\])?", text)
        if match is None:
            raise HeaderError(f"unknown declaration: {text}")
        kind = self._type(match[1], len(match[2]), text)
        return (f"{kind} * {self._length(match[4])}" if match[4] else kind), match[3]

    def _length(self, text: str) -> int:
        return self.constants[text] if text in self.constants else _number(text)

    def _type(self, name: str, pointers: int, text: str) -> str:
        if pointers and (name in self._opaque or name == "char"):
            kind, pointers = ("c_char_p" if name == "char" else "c_void_p"), pointers - 1
        elif name == "void":
            return "None"
        elif name in self._types:
            kind = self._types[name]
        else:
            raise HeaderError(f"unknown type {name}: {text}")
        return "POINTER(" * pointers + kind + ")" * pointers


def _declarations(text: str) -> Iterator[str]:
    """Yield the declarations that end with a semicolon outside braces, in one line each."""
    rest = " ".join(text.split())
    while rest:
        match = re.match(r"((?:[^;{}]|\{[^{}]*\})+);\s*", rest)
        if match is None:
            raise HeaderError(f"unknown declaration: {rest[:80]}")
        yield match[1].strip()
        rest = rest[match.end() :]


def _number(text: str) -> int:
    match = re.fullmatch(r"(\d+)u?", text)
    if match is None and text not in LIMITS:
        raise HeaderError(f"expected a number, found: {text}")
    return LIMITS[text] if match is None else int(match[1])


def class_name(struct: str) -> str:
    """Return the name of a struct's class: BoardPage for vram_board_page, ArrowSchema for itself."""
    return "".join(part[0].upper() + part[1:] for part in struct.removeprefix("vram_").split("_"))


def prototypes(folder: Path) -> str:
    """Return the text of the module for the headers in a folder."""
    found = Declarations(folder)
    lines = [f"{name.removeprefix('VRAM_')} = {value}" for name, value in found.constants.items()]
    for name, members in found.structs.items():
        fields = "".join(f'("{member}", {kind}),\n' for kind, member in members)
        lines.append(
            f'class {class_name(name)}(Structure):\n    """Struct ``{name}``."""\n\n    _fields_ = [{fields}]\n'
        )
    lines.append("# The type of the result, and those of the parameters.")
    for table, functions in (("PROTOTYPES", found.functions), ("REPORT_PROTOTYPES", found.report_functions)):
        lines.append(f"{table}: dict[str, tuple[Any, list[Any]]] = {{")
        lines += [f'"{name}": ({result}, [{", ".join(kinds)}]),' for name, (result, kinds) in functions.items()]
        lines.append("}")
    body = "\n".join([*lines, ""])
    names = sorted({"Structure", *re.findall(r"\b(?:c_\w+|POINTER|CFUNCTYPE)\b", body)}, key=_import_order)
    text = f"{_HEAD}from ctypes import {', '.join(names)}\nfrom typing import Any\n\n{body}"
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def _import_order(name: str) -> tuple[bool, bool, str]:
    """As isort: constants, classes, the rest."""
    return not name.isupper(), name[0].islower(), name


if __name__ == "__main__":
    TARGET.write_text(prototypes(ROOT / "include" / "vram"))

#!/usr/bin/env python3
"""Holds the code to src/layers.toml: which room may include which, and which third-party headers, where.

Checked: every folder of src/ is a room of the law and every room is a folder; a room names only rooms above it; each
include of ours is written from src/ ("room/file.hpp"), exists, and lies in an allowed room; third-party headers appear
only where the law names them; and src/CMakeLists.txt links no room and no library that the law does not allow.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from source_files import CPP, ROOT, source_files

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
ROOM_IN_CMAKE = re.compile(r"^vram_room\((\w+)\s*([^)]*)\)", re.MULTILINE)
# Headers of the C library and the kernel; a name without dot or slash is the C++ library's.
SYSTEM = re.compile(
    r"(sys|linux|arpa|netinet|bits)/.*"
    r"|(unistd|fcntl|dirent|dlfcn|errno|signal|poll|pthread|pwd|sched|spawn|stdlib|string|time|termios|cxxabi|execinfo|elf|link)\.h"
)
TEST_ONLY = {"gtest", "gmock", "rapidcheck", "rapidcheck.h"}
# The names that cmake/deps.cmake gives to what layers.toml names by its headers.
HEADERS_OF = {
    "fmt": "fmt",
    "expected": "tl",
    "zstd": "zstd.h",
    "zlib": "zlib.h",
    "lzma": "lzma.h",
    "cli11": "CLI",
    "json": "nlohmann",
    "beast": "boost",
    "toml": "toml++",
    "sqlite": "sqlite3.h",
    "ncurses": "curses.h",
}


@dataclass
class Room:
    rooms: list[str]
    third_party: list[str]
    third_party_in: dict[str, list[str]] = field(default_factory=dict)  # by folder or by one file, below src/

    def allows_third_party(self, path: Path, header: str) -> bool:
        for place, names in self.third_party_in.items():
            if path.is_relative_to(place) and header in names:
                return True
        return header in self.third_party


def read_law(text: str) -> dict[str, Room]:
    return {name: Room(**table) for name, table in tomllib.loads(text).items()}


def law_problems(law: dict[str, Room], folders: set[str]) -> Iterator[str]:
    above: set[str] = set()
    for name, room in law.items():
        yield from (f"layers.toml: {name} names {r}, which is not above it" for r in room.rooms if r not in above)
        above.add(name)
    yield from (f"src/{name}: a folder that layers.toml does not name" for name in sorted(folders - above))
    yield from (f"layers.toml: {name} is no folder of src/ with code in it" for name in sorted(above - folders))


def include_problems(law: dict[str, Room], path: Path, text: str, known: set[Path]) -> Iterator[str]:
    """`path` and `known` are relative to src/."""
    at_the_top = len(path.parts) == 1  # main.cpp: the door, which may see every room
    room = Room(list(law), []) if at_the_top else law[path.parts[0]]
    for match in INCLUDE.finditer(text):
        quoted, name = match[1] == '"', match[2]
        where = f"src/{path}:{text.count(chr(10), 0, match.start(1)) + 1}"
        first = name.split("/")[0]
        if quoted and Path(name) not in known:
            yield f'{where}: "{name}" is not a header below src/; ours are written "room/file.hpp"'
        elif quoted and first != path.parts[0] and first not in room.rooms:
            yield f"{where}: {path.parts[0]} may not include {first}"
        elif not quoted and not ("." not in name and "/" not in name) and not SYSTEM.fullmatch(name):
            for_tests = path.name.endswith("_test.cpp") or "testing" in path.parts
            if not (for_tests and first in TEST_ONLY) and not room.allows_third_party(path, first):
                yield f"{where}: <{name}> is not among the third-party headers allowed here"


def link_problems(law: dict[str, Room], cmake: str) -> Iterator[str]:
    for name, arguments in ROOM_IN_CMAKE.findall(cmake):
        room = law.get(name)
        if room is None:
            yield f"src/CMakeLists.txt: {name} is not in layers.toml"
            continue
        allowed = {*room.third_party, *(header for names in room.third_party_in.values() for header in names)}
        for target in arguments.split():
            linked = target.removeprefix("vram::dep::")
            if target != linked and HEADERS_OF.get(linked) not in allowed:
                yield f"src/CMakeLists.txt: {name} links {target}, whose headers it may not include"
            elif target == linked and target.removeprefix("vram_") not in room.rooms:
                yield f"src/CMakeLists.txt: {name} links {target}, which it may not include"


def main() -> int:
    src = ROOT / "src"
    law = read_law((src / "layers.toml").read_text())
    files = [path.relative_to("src") for path in source_files(*CPP, under="src")]
    found = list(law_problems(law, {path.parts[0] for path in files if len(path.parts) > 1}))
    for path in files:
        if len(path.parts) == 1 or path.parts[0] in law:
            found += include_problems(law, path, (src / path).read_text(), set(files))
    found += link_problems(law, (src / "CMakeLists.txt").read_text())
    print("\n".join([*found, f"{len(files)} files in {len(law)} rooms, {len(found)} against the law"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

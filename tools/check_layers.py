#!/usr/bin/env python3
"""Checks the includes in src/ against src/layers.toml: which module may include which, and which third-party headers.

It checks that every folder of src/ is a module in layers.toml, and the reverse; a module lists only modules above it; each include
of vram's own headers is relative to src/ ("gpu/memory.hpp"), exists, and belongs to an allowed module; headers
that layers.toml restricts to some folders and files are included only there and in tests; third-party headers
appear only where layers.toml allows them; and src/CMakeLists.txt links only modules and libraries that layers.toml allows.
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
MODULE_IN_CMAKE = re.compile(r"^vram_module\((\w+)\s*([^)]*)\)", re.MULTILINE)
# Headers of the C library and the kernel.
SYSTEM = re.compile(
    r"(sys|linux|arpa|netinet|bits)/.*"
    r"|(unistd|fcntl|dirent|dlfcn|errno|signal|poll|pthread|pwd|sched|spawn|stdlib|string|time|termios|cxxabi|execinfo|elf|link)\.h"
)
TEST_ONLY = {"gtest", "gmock", "rapidcheck", "rapidcheck.h"}
# The header that layers.toml names for each library of cmake/deps.cmake.
HEADERS_OF = {
    "fmt": "fmt",
    "expected": "tl",
    "zstd": "zstd.h",
    "zlib": "zlib.h",
    "lzma": "lzma.h",
    "cli11": "CLI",
    "json": "nlohmann",
    "protozero": "protozero",
    "beast": "boost",
    "stb": "stb",
    "toml": "toml++",
    "sqlite": "sqlite3.h",
    "ncurses": "curses.h",
}


@dataclass
class Module:
    modules: list[str]
    third_party: list[str]
    # By folder or file, relative to src/.
    third_party_in: dict[str, list[str]] = field(default_factory=dict)
    # By folder of this module, relative to src/: the folders and files outside tests that may include its headers.
    included_only_by: dict[str, list[str]] = field(default_factory=dict)

    def allows_third_party(self, path: Path, header: str) -> bool:
        for place, names in self.third_party_in.items():
            if path.is_relative_to(place) and header in names:
                return True
        return header in self.third_party

    def allows_user(self, header: Path, path: Path) -> bool:
        return all(
            any(path.is_relative_to(user) for user in users)
            for place, users in self.included_only_by.items()
            if header.is_relative_to(place)
        )


def is_system(header: str) -> bool:
    """A name without a dot or slash belongs to the C++ library."""
    return ("." not in header and "/" not in header) or SYSTEM.fullmatch(header) is not None


def read_layers(text: str) -> dict[str, Module]:
    return {name: Module(**table) for name, table in tomllib.loads(text).items()}


def layer_problems(layers: dict[str, Module], folders: set[str]) -> Iterator[str]:
    above: set[str] = set()
    for name, module in layers.items():
        yield from (f"layers.toml: {name} names {m}, which is not above it" for m in module.modules if m not in above)
        above.add(name)
    yield from (f"src/{name}: this folder has no entry in layers.toml" for name in sorted(folders - above))
    yield from (f"layers.toml: {name}: src/ has no such folder with code in it" for name in sorted(above - folders))


def include_problems(layers: dict[str, Module], path: Path, text: str, known: set[Path]) -> Iterator[str]:
    """`path` and `known` are relative to src/."""
    at_the_top = len(path.parts) == 1  # main.cpp may include every module
    module = Module(list(layers), []) if at_the_top else layers[path.parts[0]]
    for_tests = path.name.endswith("_test.cpp") or "testing" in path.parts
    for match in INCLUDE.finditer(text):
        quoted, name = match[1] == '"', match[2]
        where = f"src/{path}:{text.count(chr(10), 0, match.start(1)) + 1}"
        first = name.split("/")[0]
        if quoted and Path(name) not in known:
            yield f'{where}: "{name}" is not a header in src/; write our own headers as "module/file.hpp"'
        elif quoted and first != path.parts[0] and first not in module.modules:
            yield f"{where}: {path.parts[0]} may not include {first}"
        elif quoted and not for_tests and not layers[first].allows_user(Path(name), path):
            yield f"{where}: layers.toml restricts {name} to other files and to tests"
        elif not (
            quoted or is_system(name) or (for_tests and first in TEST_ONLY) or module.allows_third_party(path, first)
        ):
            yield f"{where}: <{name}> is not a third-party header that layers.toml allows here"


def link_problems(layers: dict[str, Module], cmake: str) -> Iterator[str]:
    for name, arguments in MODULE_IN_CMAKE.findall(cmake):
        module = layers.get(name)
        if module is None:
            yield f"src/CMakeLists.txt: {name} is not in layers.toml"
            continue
        allowed = {*module.third_party, *(header for names in module.third_party_in.values() for header in names)}
        for target in arguments.split():
            linked = target.removeprefix("vram::dep::")
            if target != linked and HEADERS_OF.get(linked) not in allowed:
                yield f"src/CMakeLists.txt: {name} links {target}, whose headers it may not include"
            elif target == linked and target.removeprefix("vram_") not in module.modules:
                yield f"src/CMakeLists.txt: {name} links {target}, which it may not include"


def main() -> int:
    src = ROOT / "src"
    layers = read_layers((src / "layers.toml").read_text())
    files = [path.relative_to("src") for path in source_files(*CPP, under="src")]
    found = list(layer_problems(layers, {path.parts[0] for path in files if len(path.parts) > 1}))
    for path in files:
        if len(path.parts) == 1 or path.parts[0] in layers:
            found += include_problems(layers, path, (src / path).read_text(), set(files))
    found += link_problems(layers, (src / "CMakeLists.txt").read_text())
    print("\n".join([*found, f"{len(files)} files in {len(layers)} modules, {len(found)} forbidden includes or links"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

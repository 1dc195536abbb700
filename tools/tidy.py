"""clang-tidy over our sources, as the build compiles them: those that are compiled as one file are read as one file, since
most of the time goes to the headers that they share. Each is read only when something that it is made from has changed since
it was clean.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from source_files import ROOT, source_files
from steps import StepFailed, cores, digest, shared_stamps

CLANG_TIDY = "clang-tidy-19"
# Of the compiler that ships, and an error to clang.
GCC_ONLY = "-mtune-ctrl="


@dataclass(frozen=True)
class Unit:
    source: Path
    size_bytes: int  # of it, or of all that it merges
    arguments: tuple[str, ...]  # of the compiler
    key: str


def units(build: Path) -> list[Unit]:
    """All that this build folder compiled of our sources, with the hash of all it was compiled from."""
    headers = _headers_of_objects(build)
    version = subprocess.run([CLANG_TIDY, "--version"], check=True, capture_output=True, text=True).stdout
    found = []
    compiled: set[Path] = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        sources = _merged(source) if "Unity" in source.parts else [source]
        if not all(_is_ours(path, build) for path in sources):
            continue
        read = headers.get(_object_of(entry["command"]))
        if read is None:
            raise StepFailed(f"expected {build} to be built, found no object of {source}: build it first")
        ours = sorted(path for path in read if _is_ours(path, build) and path.is_file())
        system = sorted(str(path) for path in read if not path.is_relative_to(ROOT))
        command = entry["command"].replace(str(ROOT), ".")
        key = digest([version, command, *system, ROOT / ".clang-tidy", *sources, *ours])
        size_bytes = sum(path.stat().st_size for path in sources)
        arguments = shlex.split(entry["command"])[1:]
        found.append(Unit(source, size_bytes, tuple(a for a in arguments if not a.startswith(GCC_ONLY)), key))
        compiled.update(sources)
    missing = [path for path in source_files(".cpp", under="src") if ROOT / path not in compiled]
    if missing:
        raise StepFailed(f"{build} does not compile {', '.join(map(str, missing))}: build it again")
    return found


def check(build: Path) -> str:
    """Looks at what has changed; fails with clang-tidy's words."""
    stamps = shared_stamps("tidy")
    everything = units(build)
    changed = [unit for unit in everything if not stamps.has(unit.key)]
    # The longest first, so that the last one to finish is a short one.
    changed.sort(key=lambda unit: unit.size_bytes, reverse=True)
    complaints = []
    with ThreadPoolExecutor(cores()) as pool:
        for unit, complaint in zip(changed, pool.map(lambda unit: _complaint(build, unit), changed), strict=True):
            if complaint:
                complaints.append(complaint)
            else:
                stamps.add(unit.key)
    if complaints:
        raise StepFailed("\n".join(complaints))
    return f"{len(everything)} files as compiled, {len(changed)} read"


def _complaint(build: Path, unit: Unit) -> str:
    done = subprocess.run(
        # The compilers' own warnings are judged by the build, with the compiler that ships.
        [CLANG_TIDY, "--quiet", str(unit.source), "--", *unit.arguments, "-Wno-everything"],
        cwd=build,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    return "" if done.returncode == 0 else (done.stdout or done.stderr)


def _is_ours(path: Path, build: Path) -> bool:
    return path.is_relative_to(ROOT) and not path.is_relative_to(build)


def _merged(source: Path) -> list[Path]:
    """The sources that a file made by CMake includes, one after the other."""
    return [Path(name) for name in re.findall(r'^#include "(.+)"$', source.read_text(), re.MULTILINE)]


def _object_of(command: str) -> str:
    found = re.search(r" -o (\S+)", command)
    if not found:
        raise StepFailed(f"expected -o OBJECT in the compiler's command, found {command}")
    return found[1]


def _headers_of_objects(build: Path) -> dict[str, list[Path]]:
    """What ninja learned of each object: the files it was compiled from."""
    listed = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, capture_output=True, text=True)
    found: dict[str, list[Path]] = {}
    target = ""
    for line in listed.stdout.splitlines():
        if line.startswith("    "):
            found[target].append(Path(os.path.normpath(build / line.strip())))
        elif ": #deps" in line:
            target = line.split(": #deps")[0]
            found[target] = []
    return found

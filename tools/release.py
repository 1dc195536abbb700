#!/usr/bin/env python3
"""What a release takes: release.py check TAG | files.

check   fails unless the tag, the version of CMakeLists.txt and a dated section of CHANGELOG.md agree
files   writes SHA256SUMS and notes.md for what lies in dist/ to build/release-files/, beside what tools/sbom.py wrote there
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from source_files import ROOT
from steps import StepFailed

OUT = ROOT / "build" / "release-files"
BILL = "vram.cdx.json"
VERSION = re.compile(r"^project\(vram VERSION (\d+\.\d+\.\d+)\b", re.MULTILINE)
SECTION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def version_of(cmake: str) -> str:
    """Returns the version that CMakeLists.txt gives to the project."""
    found = VERSION.search(cmake)
    if not found:
        raise StepFailed("CMakeLists.txt: expected project(vram VERSION x.y.z, found none")
    return found[1]


def notes_of(changelog: str, version: str) -> str:
    """Returns the section of a version in CHANGELOG.md, without its heading.

    Raises:
        StepFailed: There is no such section, or it has no date or no text.
    """
    sections = list(SECTION.finditer(changelog))
    for place, section in enumerate(sections):
        if section["name"] != version:
            continue
        if not DATE.fullmatch(section["date"] or ""):
            raise StepFailed(f"CHANGELOG.md: expected the heading '## [{version}] - YYYY-MM-DD', found '{section[0]}'")
        end = sections[place + 1].start() if place + 1 < len(sections) else len(changelog)
        # The addresses at the end of the file belong to the headings.
        text = re.sub(r"^\[[^\]]+\]: \S+\n?", "", changelog[section.end() : end], flags=re.MULTILINE).strip()
        if not text:
            raise StepFailed(f"CHANGELOG.md: the section of {version} is empty: write what changed for users")
        return text + "\n"
    known = ", ".join(section["name"] for section in sections) or "none"
    raise StepFailed(f"CHANGELOG.md: expected a section '## [{version}] - YYYY-MM-DD', found sections: {known}")


def check_tag(tag: str, cmake: str, changelog: str) -> str:
    """Returns a remark if a tag fits the version and the changelog.

    Raises:
        StepFailed: It does not.
    """
    version = version_of(cmake)
    if tag != f"v{version}":
        raise StepFailed(f"expected the tag v{version}, as CMakeLists.txt says; got {tag!r}")
    notes_of(changelog, version)
    return f"{tag} agrees with CMakeLists.txt and CHANGELOG.md"


def built_files(dist: Path, version: str) -> list[Path]:
    """Returns the wheels and the source distribution in `dist`.

    Raises:
        StepFailed: There is no wheel or no source distribution of this version, or something else.
    """
    files = sorted(path for path in dist.glob("*") if path.is_file())
    expected = re.compile(rf"vram-{re.escape(version)}(-.*\.whl|\.tar\.gz)")
    if not all(expected.fullmatch(path.name) for path in files) or not {".whl", ".gz"} <= {
        path.suffix for path in files
    }:
        listed = ", ".join(path.name for path in files) or "nothing"
        raise StepFailed(f"expected wheels and the source distribution of vram {version} in {dist}, found {listed}")
    return files


def write_files(dist: Path, out: Path, version: str, notes: str) -> str:
    """Writes what is published beside the wheels and the source distribution in `dist`.

    Raises:
        StepFailed: `dist` is incomplete, or `out` has no bill of materials that lists exactly these files.
    """
    files = built_files(dist, version)
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    bill = out / BILL
    if not bill.is_file():
        raise StepFailed(f"expected {bill}, found none: run `make sbom` where the wheels were built")
    parts = json.loads(bill.read_text())["metadata"]["component"]["components"]
    if {part["name"]: part["hashes"][0]["content"] for part in parts} != sums:
        raise StepFailed(f"{bill} is of other files than those in {dist}: run `make sbom` where these were built")
    sums[bill.name] = hashlib.sha256(bill.read_bytes()).hexdigest()
    (out / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in sums.items()))
    (out / "notes.md").write_text(notes)
    return f"{out}: SHA256SUMS of {len(sums)} files, notes.md"


def main() -> int:
    cmake = (ROOT / "CMakeLists.txt").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    try:
        match sys.argv[1:]:
            case ["check", tag]:
                print(check_tag(tag, cmake, changelog))
            case ["files"]:
                version = version_of(cmake)
                notes = notes_of(changelog, version)
                print(write_files(ROOT / "dist", OUT, version, notes))
            case _:
                print(f"usage: {sys.argv[0]} check TAG | files", file=sys.stderr)
                return 2
    except StepFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

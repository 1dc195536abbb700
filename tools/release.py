#!/usr/bin/env python3
"""Checks and prepares a release: release.py check | files.

check   fails unless the tag in the environment variable TAG, the version of CMakeLists.txt and a dated section of
        CHANGELOG.md agree, and the commit is on origin/main
files   writes SHA256SUMS and the release notes for the files in dist/ to build/release-files/, next to the output of tools/sbom.py;
        fails unless dist/ contains all published files, made from the commit that is checked out
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from source_files import ROOT
from steps import StepFailed

OUT = ROOT / "build" / "release-files"
BILL = "vram.cdx.json"
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64")
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


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def commit_of(name: str, folder: Path = ROOT) -> str | None:
    """Returns the commit that a branch or a tag of a clone names, or None if there is no such name."""
    asked = _git(folder, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
    return asked.stdout.strip() or None


def checked_out(folder: Path = ROOT) -> str:
    """Returns the commit that is checked out.

    Raises:
        StepFailed: There is none.
    """
    head = commit_of("HEAD", folder)
    if head is None:
        raise StepFailed(f"expected a clone of the repository with a commit in {folder}, found none")
    return head


def check_commit(tag: str, folder: Path = ROOT) -> str:
    """Returns a remark if the commit that is checked out, which the tag names or will name, is on origin/main.

    Raises:
        StepFailed: It is not, or the tag names another commit, or the clone does not know origin/main.
    """
    head = checked_out(folder)
    tagged = commit_of(f"refs/tags/{tag}", folder)
    if tagged not in (None, head):
        raise StepFailed(f"{tag} names {tagged}, another commit than the one checked out, {head}: check out {tag}")
    if commit_of("refs/remotes/origin/main", folder) is None:
        raise StepFailed("this clone has no origin/main to look for the commit in: run `git fetch origin` first")
    if _git(folder, "merge-base", "--is-ancestor", head, "refs/remotes/origin/main").returncode != 0:
        raise StepFailed(
            f"commit {head} is not on origin/main, or this clone is shallow: merge it and fetch all of origin/main first"
        )
    return f"{head[:7]} is on origin/main"


def built_files(dist: Path, version: str) -> list[Path]:
    """Returns the wheels and the source distribution in `dist`.

    Raises:
        StepFailed: One of them is missing, or there is something else.
    """
    expected = [f"vram-{version}-py3-none-{platform}.whl" for platform in PLATFORMS] + [f"vram-{version}.tar.gz"]
    found = sorted(path.name for path in dist.glob("*"))
    if found != sorted(expected):
        listed = ", ".join(found) or "nothing"
        raise StepFailed(f"expected {', '.join(sorted(expected))} in {dist}, found {listed}")
    return [dist / name for name in found]


def check_source(source: Path, version: str, commit: str) -> None:
    """Checks the commit that a source distribution names as its origin.

    Raises:
        StepFailed: Another one, a changed one, or none.
    """
    with tarfile.open(source) as archive:
        try:
            file = archive.extractfile(f"vram-{version}/COMMIT")
            said = repr(file.read().decode(errors="replace").strip()) if file else "no COMMIT"
        except KeyError:
            said = "no COMMIT"
    abbreviated = said.strip("'")
    if not re.fullmatch(r"[0-9a-f]{7,40}", abbreviated) or not commit.startswith(abbreviated):
        raise StepFailed(f"{source.name}: expected commit {commit} in its file COMMIT, found {said}: build it again")


def write_files(dist: Path, out: Path, version: str, notes: str, commit: str) -> str:
    """Writes the files that are published with the wheels and the source distribution in `dist`.

    Raises:
        StepFailed: `dist` is incomplete or made of another commit, or `out` has no bill of materials that lists exactly
            these files.
    """
    files = built_files(dist, version)
    check_source(dist / f"vram-{version}.tar.gz", version, commit)
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
            case ["check"]:
                # Not an argument: the person who pushes a tag chooses its name, which a shell would interpret (Makefile).
                if not (tag := os.environ.get("TAG", "")):
                    raise StepFailed("expected the tag in the environment variable TAG: make release-check TAG=v1.2.3")
                print(check_tag(tag, cmake, changelog))
                print(check_commit(tag))
            case ["files"]:
                version = version_of(cmake)
                notes = notes_of(changelog, version)
                print(write_files(ROOT / "dist", OUT, version, notes, checked_out()))
            case _:
                print(f"usage: {sys.argv[0]} check | files", file=sys.stderr)
                return 2
    except StepFailed as failure:
        print(f"release: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

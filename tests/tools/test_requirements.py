"""The requirements with hashes match the files that they are generated from."""

import re
from pathlib import Path

import pytest

from source_files import ROOT

TOOLS = ROOT / "tools"
SOURCES = sorted(TOOLS.glob("requirements*.in"))
PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;]+)", re.MULTILINE)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def pins(text: str) -> set[tuple[str, str]]:
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in PIN.findall(text)}


def blocks(text: str) -> list[str]:
    """The requirements of a file, each with its lines of hashes."""
    lines = [
        line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return [line for line in lines if not line.startswith("-")]


def test_there_are_files_to_check() -> None:
    assert {"requirements.in", "requirements-torch-needs.in"} <= {source.name for source in SOURCES}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_direct_requirements_are_exact_and_are_in_the_file_with_hashes(source: Path) -> None:
    locked = source.with_suffix(".txt")
    assert locked.is_file(), f"run `make requirements`, which writes {locked}"
    missing = pins(source.read_text()) - pins(locked.read_text())
    assert not missing, f"{source.name} names versions that {locked.name} lacks; run `make requirements`"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_every_requirement_has_hashes(source: Path) -> None:
    listed = blocks(source.with_suffix(".txt").read_text())
    assert listed
    assert [line for line in listed if not HASH.search(line)] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_pytorch_is_in_no_file_with_hashes(source: Path) -> None:
    assert "torch" not in {name for name, _ in pins(source.with_suffix(".txt").read_text())}
    assert re.search(r"^torch==", (TOOLS / "requirements-torch.txt").read_text(), re.MULTILINE)

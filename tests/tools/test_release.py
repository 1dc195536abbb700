"""The release tools: what they refuse, and what they write."""

import hashlib
import json
from pathlib import Path

import pytest

import release
import sbom
from source_files import ROOT
from steps import StepFailed

CMAKE = "project(vram VERSION 1.2.3 LANGUAGES CXX)\n"
CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2026-11-22

### Added

- A thing.

## [1.2.2] - 2026-10-01

- Another.

[1.2.3]: https://nowhere.invalid
"""


def test_a_tag_that_agrees_passes() -> None:
    assert release.check_tag("v1.2.3", CMAKE, CHANGELOG) == "v1.2.3 agrees with CMakeLists.txt and CHANGELOG.md"


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.4", "v1.2", "v1.2.3-rc1", "", "V1.2.3"])
def test_another_tag_is_refused(tag: str) -> None:
    with pytest.raises(StepFailed, match=r"expected the tag v1\.2\.3"):
        release.check_tag(tag, CMAKE, CHANGELOG)


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        (CHANGELOG.replace("[1.2.3] - 2026-11-22", "[1.2.4] - 2026-11-22"), "found sections: Unreleased, 1.2.4, 1.2.2"),
        (CHANGELOG.replace(" - 2026-11-22", ""), "found '## \\[1.2.3\\]'"),
        (CHANGELOG.replace("2026-11-22", "unreleased"), "YYYY-MM-DD"),
        (CHANGELOG.replace("### Added\n\n- A thing.\n", ""), "is empty"),
        ("", "found sections: none"),
    ],
)
def test_a_changelog_without_the_section_is_refused(changelog: str, reason: str) -> None:
    with pytest.raises(StepFailed, match=reason):
        release.check_tag("v1.2.3", CMAKE, changelog)


def test_cmake_without_a_version_is_refused() -> None:
    with pytest.raises(StepFailed, match="expected project"):
        release.version_of("project(vram)")


def test_notes_are_the_section_alone() -> None:
    assert release.notes_of(CHANGELOG, "1.2.3") == "### Added\n\n- A thing.\n"
    assert release.notes_of(CHANGELOG, "1.2.2") == "- Another.\n"


def test_this_repository_has_a_version_and_a_section_for_what_comes() -> None:
    assert release.version_of((ROOT / "CMakeLists.txt").read_text())
    assert "## [Unreleased]" in (ROOT / "CHANGELOG.md").read_text()


def files_of_a_build(dist: Path) -> list[Path]:
    dist.mkdir()
    names = ["vram-1.2.3-py3-none-manylinux_2_28_x86_64.whl", "vram-1.2.3.tar.gz"]
    for name in names:
        (dist / name).write_text(name)
    return [dist / name for name in names]


def test_the_files_of_a_release(tmp_path: Path) -> None:
    files = files_of_a_build(tmp_path / "dist")
    release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "- A thing.\n")
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "out/SHA256SUMS").read_text().splitlines())
    described = tmp_path / "out/vram.cdx.json"
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [*files, described]}
    bom = json.loads(described.read_text())
    product = bom["metadata"]["component"]
    assert (product["name"], product["version"]) == ("vram", "1.2.3")
    assert {part["name"]: part["hashes"][0]["content"] for part in product["components"]} == {
        path.name: sums[path.name] for path in files
    }
    assert {"fmt", "zstd", "sqlite"} <= {component["name"] for component in bom["components"]}
    assert (tmp_path / "out/notes.md").read_text() == "- A thing.\n"


@pytest.mark.parametrize("change", ["no wheel", "no source", "another version", "another file", "nothing"])
def test_an_incomplete_build_is_refused(tmp_path: Path, change: str) -> None:
    wheel, source = files_of_a_build(tmp_path / "dist")
    match change:
        case "no wheel":
            wheel.unlink()
        case "no source":
            source.unlink()
        case "another version":
            wheel.rename(wheel.with_name(wheel.name.replace("1.2.3", "1.2.30")))
        case "another file":
            (tmp_path / "dist" / "core").touch()
        case "nothing":
            wheel.unlink()
            source.unlink()
    with pytest.raises(StepFailed, match=r"expected wheels and the source distribution of vram 1\.2\.3"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "")


def test_the_bill_of_materials_knows_every_library_that_is_shipped() -> None:
    cmake = (ROOT / "cmake/deps.cmake").read_text()
    exposed = {line.split("(")[1].split()[0] for line in cmake.splitlines() if line.strip().startswith("vram_expose(")}
    known = {library.name: library for library in sbom.libraries((ROOT / "tools/third_party.toml").read_text(), cmake)}
    assert set(known) == exposed - {"gtest", "benchmark"}  # those are in the tests alone
    assert known["fmt"].version == "9.1.0"
    assert known["lzma"].version == "5.4.7"
    assert known["sqlite"].version is None
    assert known["sqlite"].minimum
    for library in known.values():
        assert bool(library.version) == bool(library.sha256), library


def test_a_library_without_any_version_is_refused() -> None:
    with pytest.raises(StepFailed, match="thing: expected a release of it"):
        sbom.libraries('[thing]\nlicense = "MIT"\npurl = "pkg:generic/thing"\n', "")

"""The release tools: what they refuse, and what they write."""

import hashlib
import json
import tomllib
from pathlib import Path

import pytest
from packageurl import PackageURL

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


def bill(files: list[Path], out: Path) -> Path:
    out.mkdir(exist_ok=True)
    library = sbom.Library("fmt", "MIT", PackageURL.from_string("pkg:deb/debian/fmtlib@9.1.0%2Bds1-2?arch=source"))
    (out / "vram.cdx.json").write_text(sbom.bill_of_materials("1.2.3", files, [library]))
    return out / "vram.cdx.json"


def test_the_files_of_a_release(tmp_path: Path) -> None:
    files = files_of_a_build(tmp_path / "dist")
    described = bill(files, tmp_path / "out")
    release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "- A thing.\n")
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "out/SHA256SUMS").read_text().splitlines())
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [*files, described]}
    assert (tmp_path / "out/notes.md").read_text() == "- A thing.\n"


def test_a_release_without_a_bill_of_materials_of_its_files_is_refused(tmp_path: Path) -> None:
    files = files_of_a_build(tmp_path / "dist")
    with pytest.raises(StepFailed, match="found none: run `make sbom`"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "")
    bill(files, tmp_path / "out")
    files[0].write_text("built again")
    with pytest.raises(StepFailed, match="is of other files"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "")
    bill(files[1:], tmp_path / "out")
    with pytest.raises(StepFailed, match="is of other files"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "")


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


TABLE = (ROOT / "tools/third_party.toml").read_text()
SYSTEM = {"ID": "debian", "VERSION_ID": "12"}
ZIG = "ziglang==0.17.1 \\\n    --hash=sha256:0\n"


def test_the_bill_of_materials_names_every_library_that_is_shipped() -> None:
    cmake = (ROOT / "cmake/deps.cmake").read_text()
    exposed = {line.split("(")[1].split()[0] for line in cmake.splitlines() if line.strip().startswith("vram_expose(")}
    known = tomllib.loads(TABLE)
    in_code = {name for name, library in known.items() if "python" not in library}
    assert in_code == exposed - {"gtest", "benchmark"}  # those are in the tests alone


def test_versions_are_those_of_what_the_wheels_were_built_from(tmp_path: Path) -> None:
    unpacked = tmp_path / "fmtlib" / "fmtlib-9.1.0+ds1" / "debian"
    unpacked.mkdir(parents=True)
    (unpacked / "changelog").write_text(
        "fmtlib (9.1.0+ds1-2) unstable; urgency=medium\n\n  * Fixed.\n\nfmtlib (9.0) x\n"
    )
    found = sbom.libraries(TABLE, tmp_path, ZIG, installed=lambda package: f"1:{len(package)}-1", system=SYSTEM)
    origins = {library.name: library.origin for library in found}
    assert origins["fmt"].to_string() == "pkg:deb/debian/fmtlib@9.1.0%2Bds1-2?arch=source&distro=debian-12"
    assert origins["zlib"].version == "1:10-1"  # of zlib1g-dev, which is installed
    assert origins["llvm-runtimes"].to_string() == "pkg:pypi/ziglang@0.17.1"
    bom = json.loads(sbom.bill_of_materials("1.2.3", files_of_a_build(tmp_path / "dist"), found))
    assert {part["name"]: part["version"] for part in bom["components"]} == {
        name: origin.version for name, origin in origins.items()
    }
    assert all(part["licenses"] for part in bom["components"])
    (product,) = [part for part in bom["dependencies"] if part["ref"] == "vram"]
    assert set(product["dependsOn"]) == set(origins)


def test_unknown_versions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="fmt: expected the sources of fmtlib"):
        sbom.libraries(TABLE, tmp_path, ZIG, installed=lambda _: None, system=SYSTEM)
    with pytest.raises(StepFailed, match="expected ziglang==VERSION"):
        sbom.libraries(TABLE, tmp_path, "", installed=lambda _: "1", system=SYSTEM)


def test_installed_versions_come_from_dpkg() -> None:
    assert sbom.installed_version("libfmt-dev")
    assert sbom.installed_version("there-is-no-such-package") is None

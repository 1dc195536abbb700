"""The release tools: the input that they refuse, and the files that they write."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
from packageurl import PackageURL

import release
import sbom
import wheels
from portable import Target
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


COMMIT = "abc1234" + "0" * 33


def files_of_a_build(dist: Path, commit: str | None = "abc1234") -> list[Path]:
    """The wheels and the source distribution, in order."""
    dist.mkdir()
    built = [dist / f"vram-1.2.3-py3-none-manylinux_2_28_{machine}.whl" for machine in ("aarch64", "x86_64")]
    for wheel in built:
        wheel.write_text(wheel.name)
    source = dist / "vram-1.2.3.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for name, text in {"README.md": "vram\n", "COMMIT": commit and commit + "\n"}.items():
            if text:
                entry = tarfile.TarInfo(f"vram-1.2.3/{name}")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
    return [*built, source]


def bill(files: list[Path], out: Path) -> Path:
    out.mkdir(exist_ok=True)
    library = sbom.Library("fmt", "MIT", PackageURL.from_string("pkg:deb/debian/fmtlib@9.1.0%2Bds1-2?arch=source"))
    (out / "vram.cdx.json").write_text(sbom.bill_of_materials("1.2.3", files, [library]))
    return out / "vram.cdx.json"


def test_the_files_of_a_release(tmp_path: Path) -> None:
    files = files_of_a_build(tmp_path / "dist")
    described = bill(files, tmp_path / "out")
    release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "- A thing.\n", COMMIT)
    sums = dict(line.split("  ")[::-1] for line in (tmp_path / "out/SHA256SUMS").read_text().splitlines())
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in [*files, described]}
    assert (tmp_path / "out/notes.md").read_text() == "- A thing.\n"


def test_a_release_without_a_bill_of_materials_of_its_files_is_refused(tmp_path: Path) -> None:
    files = files_of_a_build(tmp_path / "dist")
    with pytest.raises(StepFailed, match="found none: run `make sbom`"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "", COMMIT)
    bill(files, tmp_path / "out")
    files[0].write_text("built again")
    with pytest.raises(StepFailed, match="is of other files"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "", COMMIT)
    bill(files[1:], tmp_path / "out")
    with pytest.raises(StepFailed, match="is of other files"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "", COMMIT)


@pytest.mark.parametrize(
    ("commit", "reason"),
    [
        ("abc1235", "abc1235"),
        ("abc1234-dirty", "abc1234-dirty"),
        ("abc", "'abc'"),
        (None, "no COMMIT"),
    ],
)
def test_a_source_distribution_of_another_commit_is_refused(tmp_path: Path, commit: str | None, reason: str) -> None:
    files = files_of_a_build(tmp_path / "dist", commit)
    bill(files, tmp_path / "out")
    with pytest.raises(StepFailed, match=rf"expected commit {COMMIT}.*{reason}"):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "", COMMIT)
    assert not (tmp_path / "out" / "SHA256SUMS").exists()


def test_what_is_published_is_what_the_wheels_are_built_for() -> None:
    assert set(release.PLATFORMS) == {Target(name).platform_tag for name in wheels.ARCHITECTURES}


CHANGES = ["no wheel", "no source", "another version", "another file", "another platform", "another source", "nothing"]


@pytest.mark.parametrize("change", CHANGES)
def test_an_incomplete_build_is_refused(tmp_path: Path, change: str) -> None:
    other, wheel, source = files_of_a_build(tmp_path / "dist")
    match change:
        case "no wheel":
            wheel.unlink()
        case "another platform":
            wheel.rename(wheel.with_name(wheel.name.replace("manylinux_2_28", "linux")))
        case "another source":
            source.with_name("vram-1.2.3.zip").touch()
        case "no source":
            source.unlink()
        case "another version":
            wheel.rename(wheel.with_name(wheel.name.replace("1.2.3", "1.2.30")))
        case "another file":
            (tmp_path / "dist" / "core").touch()
        case "nothing":
            other.unlink()
            wheel.unlink()
            source.unlink()
    with pytest.raises(StepFailed, match=r"expected vram-1\.2\.3-py3-none-manylinux_2_28_aarch64\.whl, .* in "):
        release.write_files(tmp_path / "dist", tmp_path / "out", "1.2.3", "", COMMIT)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with a tag v1.2.3 on a commit of its branch main, which was pushed."""
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "origin")
    git(tmp_path, "clone", "--quiet", "origin", "clone")
    folder = tmp_path / "clone"
    git(folder, "checkout", "--quiet", "-B", "main")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(folder, "tag", "--annotate", "--message", "vram 1.2.3", "v1.2.3")
    git(folder, "push", "--quiet", "origin", "main")
    return folder


def test_a_tag_of_a_commit_of_main_passes(clone: Path) -> None:
    first = git(clone, "rev-parse", "--short=7", "HEAD")
    assert release.check_commit("v1.2.3", clone) == f"{first} is on origin/main"
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "second")
    git(clone, "push", "--quiet", "origin", "main")
    git(clone, "checkout", "--quiet", "v1.2.3")
    assert release.check_commit("v1.2.3", clone) == f"{first} is on origin/main"
    # Before the tag is made, the commit that is checked out is what it will name.
    git(clone, "tag", "--delete", "v1.2.3")
    assert release.check_commit("v1.2.3", clone) == f"{first} is on origin/main"


def test_a_tag_of_a_commit_outside_of_main_is_refused(clone: Path) -> None:
    git(clone, "checkout", "--quiet", "-b", "other")
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "not reviewed")
    with pytest.raises(StepFailed, match=r"v1\.2\.3 names .* another commit than the one checked out"):
        release.check_commit("v1.2.3", clone)
    git(clone, "tag", "--force", "v1.2.3")
    with pytest.raises(StepFailed, match="is not on origin/main"):
        release.check_commit("v1.2.3", clone)


def test_a_clone_without_main_is_refused(clone: Path) -> None:
    git(clone, "update-ref", "-d", "refs/remotes/origin/main")
    with pytest.raises(StepFailed, match=r"has no origin/main.*git fetch"):
        release.check_commit("v1.2.3", clone)


def test_the_tag_comes_from_the_environment_and_no_shell_reads_it(tmp_path: Path) -> None:
    tag = f"v1.2.3$(touch${{IFS}}{tmp_path}/shell)`touch${{IFS}}{tmp_path}/shell`"
    for name in ("Makefile", "CMakeLists.txt", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools").mkdir()
    for name in ("release.py", "source_files.py", "steps.py"):
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    command = ["make", "-o", "setup-python", "release-check"]
    environment = {"PATH": os.environ["PATH"], "TAG": tag}
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert said.returncode != 0
    assert f"got {tag!r}" in said.stderr
    assert not (tmp_path / "shell").exists()
    environment.pop("TAG")
    said = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert "expected the tag in the environment variable TAG" in said.stderr


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

"""The commit that `vram --version` names: cmake/commit.cmake as a script, and the build backend, in test repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scikit_build_core import build as scikit_build

import build_backend
import wheels
from steps import StepFailed

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "cmake" / "commit.cmake"


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A repository with one commit, in a folder whose name a shell would take apart."""
    folder = tmp_path / "the sources"
    (folder / "cmake").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "cmake")
    shutil.copy(ROOT / ".gitattributes", folder)
    (folder / ".gitignore").write_text("/COMMIT\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def build(sources: Path, script: Path = SCRIPT) -> str:
    """The text in the file that the script writes."""
    target = sources.parent / "build.cpp"
    definitions = {
        "SOURCE": sources,
        "TEMPLATE": ROOT / "src" / "cli" / "build.cpp.in",
        "BUILD_TYPE": "Release",
        "TARGET": target,
    }
    command = ["cmake", *(f"-D{name}={value}" for name, value in definitions.items()), "-P", str(script)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return target.read_text().split('kBuild = "')[1].split('"')[0]


def test_a_commit_and_changes_to_it(sources: Path) -> None:
    commit = git(sources, "rev-parse", "--short=7", "HEAD")
    assert build(sources) == f"commit {commit}, Release"
    git(sources, "tag", "v1.0", "--annotate", "--message", "a release")
    assert build(sources) == f"commit {commit}, Release"
    (sources / "new.txt").write_text("not tracked")
    assert build(sources) == f"commit {commit}, Release"
    (sources / ".gitignore").write_text("changed")
    assert build(sources) == f"commit {commit}-dirty, Release"


UNTRACKED = [
    "src/new.cpp",
    "include/vram/new.h",
    "cmake/new.cmake",
    "python/vram/new.py",
    "demo/new.xz",
    "tools/new.py",
]


@pytest.mark.parametrize("name", UNTRACKED)
def test_a_new_file_that_could_be_built_in_is_a_change(
    sources: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(sources, "config", "status.showUntrackedFiles", "no")
    monkeypatch.setattr(build_backend, "ROOT", sources)
    commit = git(sources, "rev-parse", "--short=7", "HEAD")
    assert build_backend.commit() == commit
    (sources / name).parent.mkdir(parents=True, exist_ok=True)
    (sources / name).write_text("not tracked")
    assert build(sources) == f"commit {commit}-dirty, Release"
    assert build_backend.commit() == f"{commit}-dirty"
    git(sources, "add", name)
    git(sources, "commit", "--quiet", "--message", "second")
    assert build_backend.commit() == git(sources, "rev-parse", "--short=7", "HEAD")


@pytest.mark.parametrize(("commit", "is_allowed"), [("abc1234", True), (None, True), ("abc1234-dirty", False)])
def test_wheels_are_not_built_from_changed_sources(
    commit: str | None, is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "commit", lambda: commit)
    if is_allowed:
        wheels.check_sources()
    else:
        with pytest.raises(StepFailed, match=r"abc1234-dirty.*--allow-dirty"):
            wheels.check_sources()


def test_the_file_is_touched_only_if_its_text_changes(sources: Path) -> None:
    build(sources)
    target = sources.parent / "build.cpp"
    os.utime(target, (1, 1))
    build(sources)
    assert target.stat().st_mtime == 1
    git(sources, "commit", "--quiet", "--allow-empty", "--message", "second")
    build(sources)
    assert target.stat().st_mtime > 1


def test_a_worktree(sources: Path, tmp_path: Path) -> None:
    git(sources, "worktree", "add", "--quiet", str(tmp_path / "other"))
    assert build(tmp_path / "other") == build(sources)


def test_somebody_elses_repository_is_not_asked(sources: Path) -> None:
    inside = sources / "vram-0.1.0"
    inside.mkdir()
    assert build(inside) == "unknown commit, Release"
    (inside / "COMMIT").write_text("abc1234\n")
    assert build(inside) == "commit abc1234, Release"
    (inside / "COMMIT").write_text('"; system("true\n')
    assert build(inside) == "unknown commit, Release"


def test_an_archive_knows_its_commit(sources: Path, tmp_path: Path) -> None:
    git(sources, "archive", "--output", str(tmp_path / "archive.tar"), "HEAD")
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(tmp_path / "archive.tar", unpacked)
    commit = git(sources, "rev-parse", "--short", "HEAD")
    assert build(unpacked, unpacked / "cmake" / "commit.cmake") == f"commit {commit}, Release"


def test_a_source_distribution_knows_its_commit(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there while the distribution is made, and counts as no change to the sources."""
    monkeypatch.setattr(build_backend, "ROOT", sources)
    monkeypatch.setattr(build_backend, "COMMIT", sources / "COMMIT")
    seen: list[str] = []

    def make(_folder: str, _settings: object) -> str:
        seen.append((sources / "COMMIT").read_text())
        assert build(sources) == f"commit {seen[0].strip()}, Release"
        return "vram-0.1.0.tar.gz"

    monkeypatch.setattr(scikit_build, "build_sdist", make)
    assert build_backend.build_sdist("dist") == "vram-0.1.0.tar.gz"
    assert seen == [git(sources, "rev-parse", "--short=7", "HEAD") + "\n"]
    assert not (sources / "COMMIT").exists()


def test_a_distribution_made_of_a_distribution_keeps_the_commit(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(sources / ".git")
    (sources / "COMMIT").write_text("abc1234\n")
    monkeypatch.setattr(build_backend, "ROOT", sources)
    monkeypatch.setattr(build_backend, "COMMIT", sources / "COMMIT")
    monkeypatch.setattr(scikit_build, "build_sdist", lambda *_: (sources / "COMMIT").read_text())
    assert build_backend.build_sdist("dist") == "abc1234\n"
    assert (sources / "COMMIT").read_text() == "abc1234\n"

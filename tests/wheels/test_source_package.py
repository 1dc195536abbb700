"""The source package contains what building requires, and a wheel can be built from it alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wheels
from source_files import ROOT


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    shutil.unpack_archive(wheels.source_package(folder), folder)
    (made,) = (path for path in folder.iterdir() if path.is_dir())
    return made


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_it_holds_what_building_needs_and_no_more(unpacked: Path) -> None:
    found = names(unpacked)
    recordings = {f"demo/{path.name}" for path in (ROOT / "demo").glob("*.xz")}
    assert recordings
    assert {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", *recordings} <= found
    tops = {name.split("/")[0] for name in found}
    known = {"CMakeLists.txt", "COMMIT", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert tops - known <= {"cmake", "demo", "deploy", "include", "po", "python", "src", "tools", "web"}
    assert {name for name in found if name.startswith("deploy/")} == {"deploy/rules.toml"}  # built into the program
    # The pages are built already, since building them requires node.
    assert {name.rpartition("/")[0] for name in found if name.startswith("web/")} == {"web/dist"}
    assert {name for name in found if name.startswith("po/")} == {"po/zh_CN.po"}
    assert [name for name in found if "_test." in name or "/testing/" in name or "/tests/" in name] == []
    assert [name for name in found if "__pycache__" in name or "/.git" in name or name.endswith((".o", ".so"))] == []
    # Every source that the repository compiles into the program and the libraries is there.
    listed = subprocess.run(
        ["git", "ls-files", "src", "include", "cmake"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    ours = {name for name in listed.stdout.split() if not ("_test.cpp" in name or "/testing/" in name)}
    assert ours - found == set()


@pytest.mark.timeout(1800)  # it compiles everything
def test_a_wheel_is_built_from_it(unpacked: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=300)
    python = environment / "bin" / "python"
    # The build back end comes from the package index, as it does for a user. CXX: the name that the release build calls the
    # compiler by, so that ccache knows what it has compiled.
    settings = {**os.environ, "CXX": "c++", "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1)}
    pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run([*pip, unpacked], env=settings, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    recording = sorted((ROOT / "demo").glob("*.xz"))[0]
    for command in (["--version"], ["report", recording]):
        asked = subprocess.run(
            [environment / "bin" / "vram", *command], capture_output=True, text=True, cwd=tmp_path, timeout=120
        )
        assert asked.returncode == 0, asked.stderr
        assert asked.stdout
    words = (
        "import vram; from vram._library import library; print(library().vram_version().decode() == vram.__version__)"
    )
    loaded = subprocess.run([python, "-c", words], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert loaded.stdout == "True\n", loaded.stderr

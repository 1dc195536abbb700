"""clang-tidy checks the sources as the build compiles them, including merged ones, each with its own complaints."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import tidy
from steps import StepFailed

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, (tidy.CLANG_TIDY, "ninja", "c++"))), reason="needs clang-tidy, ninja and a compiler"
)

NINJA = """rule cxx
  command = c++ -MD -MF $out.d -o $out -c $in
  depfile = $out.d
  deps = gcc
build one.o: cxx {merged}
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder whose one object is of a file that merges two sources."""
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    monkeypatch.setattr(tidy, "source_files", lambda *_endings, **_where: [])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / ".clang-tidy").write_text((Path(__file__).parents[2] / ".clang-tidy").read_text())
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.cpp").write_text("int one() { return 1; }\n")
    (tmp_path / "src" / "b.cpp").write_text("int two() { return 2; }\n")
    folder = tmp_path / "build"
    merged = folder / "Unity" / "unity_0_cxx.cxx"
    merged.parent.mkdir(parents=True)
    merged.write_text("".join(f'#include "{tmp_path}/src/{name}.cpp"\n' for name in "ab"))
    (folder / "build.ninja").write_text(NINJA.format(merged=merged))
    command = {"directory": str(folder), "file": str(merged), "command": f"c++ -o one.o -c {merged}"}
    (folder / "compile_commands.json").write_text(json.dumps([command]))
    without_ccache = {**os.environ, "CCACHE_DISABLE": "1"}
    subprocess.run(["ninja", "-C", folder], check=True, capture_output=True, timeout=60, env=without_ccache)
    return folder


def test_a_merged_file_is_read_once_until_one_of_its_sources_changes(build: Path) -> None:
    assert tidy.check(build) == "1 files as compiled, 1 read"
    assert tidy.check(build) == "1 files as compiled, 0 read"
    (build.parent / "src" / "b.cpp").write_text("int three() { return 3; }\n")
    assert tidy.check(build) == "1 files as compiled, 1 read"


@pytest.mark.parametrize("name", ["a", "b"])
def test_each_merged_source_is_judged(build: Path, name: str) -> None:
    (build.parent / "src" / f"{name}.cpp").write_text("int badName() { return 1; }\n")
    with pytest.raises(StepFailed, match=rf"src/{name}.cpp:1:5: error: invalid case style for function 'badName'"):
        tidy.check(build)

"""The path checker accepts the ways in which texts name files and reports names of files that do not exist."""

from pathlib import PurePosixPath

import pytest

from check_paths import Tree, problems

FILES = [
    "docs/guide.md",
    "include/vram/vram.h",
    "src/pool/pool.hpp",
    "src/pool/shared_pool.cpp",
    "src/watch/rules/judge.hpp",
    "tests/data/device/notes.txt",
    "tools/unit.py",
]


def found(text: str, path: str = "docs/guide.md") -> list[str]:
    return list(problems(PurePosixPath(path), text, Tree(map(PurePosixPath, FILES))))


@pytest.mark.parametrize(
    "text",
    [
        "src/pool/pool.hpp",
        "`pool/pool.hpp`",
        "pool.hpp: the pool",
        "the module `pool/`, and pool/shared_pool.",
        "src/watch/",
        "`rules/judge` has it",
        "<vram/vram.h>, vram/vram.h",
        "../tools/unit.py",
        "[guide](gone.md)",
        "https://pool/gone.hpp and /src/gone.hpp and $HOME/src/gone.hpp",
        "src/NAME.cpp, pool/<name>.hpp, tests/*/CMakeLists.txt",
        "train.py, 12 events/s, forward/layers.7.mlp, cuda.h",
        "device/vram_total is a file of the kernel",
        "drm/0000:03:00.0",
    ],
)
def test_existing_paths_and_other_words_pass(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("src/gone.cpp", "src/gone.cpp"),
        ("src/pool/gone/", "src/pool/gone"),
        ("(pool_gone.hpp)", "pool_gone.hpp"),
        ("`pool/gone`.", "pool/gone"),
        ("see tools/gone.py.", "tools/gone.py"),
        ("../tools/gone.py", "../tools/gone.py"),
    ],
)
def test_missing_paths_are_reported_with_their_line(text: str, named: str) -> None:
    expected = f":2: {named}: the repository has no such file or folder"
    assert found(f"# Title\n{text}\n") == [f"docs/guide.md{expected}"]
    assert found(f"int a;\n// {text}\n", "src/pool/pool.hpp") == [f"src/pool/pool.hpp{expected}"]


def test_code_outside_comments_is_not_checked() -> None:
    assert found('open("src/gone.cpp");\n#include "pool/gone.hpp"\n', "src/pool/shared_pool.cpp") == []

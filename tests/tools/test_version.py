"""CMakeLists.txt defines the version; every other statement of it is equal."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from source_files import ROOT, source_files

NUMBER = r"v?(\d+\.\d+\.\d+)(?!\w|\.\d)"
STATEMENTS = [
    re.compile(rf"\bvram(?: |:|-|=|==|/v?){NUMBER}"),  # vram:1.2.3 (image), vram-1.2.3 (archive), vram==1.2.3 (pip)
    re.compile(rf"\bproject\(vram VERSION {NUMBER}"),
    re.compile(rf"\b__version__ *= *[\"']{NUMBER}"),
]
# In files that are about one thing with a version: this package.
WHOLE_FILE = re.compile(rf"^\s*\"?(?:version|appVersion|tag)\"?\s*[:=]\s*[\"']?{NUMBER}", re.MULTILINE)
ABOUT_VRAM = ("CITATION.cff", "pyproject.toml", "openapi.json", "Chart.yaml", "codemeta.json")
# They speak of other versions rightly: what was measured or changed when, and the tests' own data.
OTHER_VERSIONS = ("CHANGELOG.md", "docs/benchmarks.md", "tests/")
IN_TESTS = re.compile(r"_test\.cpp$|/testing/")


def stated(name: str, text: str) -> Iterator[tuple[int, str]]:
    """Line and version of each statement of vram's version in a file."""
    patterns = [*STATEMENTS, *([WHOLE_FILE] if name.rsplit("/", 1)[-1] in ABOUT_VRAM else [])]
    for pattern in patterns:
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start(1)) + 1, found[1]


def version() -> str:
    found = re.search(rf"^project\(vram VERSION {NUMBER}", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert found, "CMakeLists.txt: expected project(vram VERSION x.y.z …)"
    return found[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deploy/README.md", "docker build -t vram:9.8.7 ."),
        ("docs/a.md", "pip install vram==9.8.7"),
        ("docs/a.md", "unpack vram-9.8.7.tar.gz, then build"),
        ("docs/a.md", "vram 9.8.7 says"),
        ("python/vram/__init__.py", '__version__ = "9.8.7"'),
        ("CITATION.cff", "cff-version: 1.2.0\nversion: 9.8.7"),
        ("deploy/chart/Chart.yaml", 'appVersion: "9.8.7"'),
        ("src/serve/openapi.json", '    "version": "9.8.7",'),
    ],
)
def test_statements_are_found(name: str, text: str) -> None:
    assert [one for _, one in stated(name, text)] == ["9.8.7"]


@pytest.mark.parametrize(
    "text",
    ["vram serve --listen 0.0.0.0:9877", "vram 1.2.3.4", "fmt 9.1.0", "cmake_minimum_required(VERSION 3.25)", "vram/1"],
)
def test_other_numbers_are_none(text: str) -> None:
    assert list(stated("docs/a.md", text)) == []


def test_nothing_states_another_version() -> None:
    files = [path.as_posix() for path in source_files("")]
    ours = [name for name in files if not name.startswith(OTHER_VERSIONS) and not IN_TESTS.search(name)]
    found: dict[str, list[tuple[int, str]]] = {}
    for name in ours:
        try:
            found[name] = list(stated(name, (ROOT / name).read_text()))
        except UnicodeDecodeError:  # a picture, a recording
            continue
    assert found["CMakeLists.txt"], "the statement itself must be found"
    assert found["deploy/kubernetes/daemonset.yaml"], "the image's version must be found"
    wrong = [f"{name}:{line}: {one}" for name, lines in found.items() for line, one in lines if one != version()]
    assert wrong == [], (
        f"CMakeLists.txt says {version()}: correct these, or name a version of something else differently"
    )

"""Statements about the project in several places agree, and everything that CONTRIBUTING.md names exists."""

import re
import tomllib

import pytest
import yaml
from markdown_it import MarkdownIt

import release
from source_files import ROOT, source_files

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
CODE = [
    child.content
    for token in MarkdownIt("commonmark").enable("table").parse(CONTRIBUTING)
    for child in token.children or ()
    if child.type == "code_inline"
]
FOLDERS = {path.parts[0] for path in source_files("") if len(path.parts) > 1}
PATHS = sorted(
    {code for code in CODE if re.fullmatch(r"[\w./-]+", code) and code.split("/")[0] in FOLDERS and "/" in code}
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_in_contributing_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_contributing_names_paths_and_targets() -> None:
    assert {
        "src/layers.toml",
        "src/replay/registry.cpp",
        "src/explain/report.hpp",
        "tests/data/metrics/full.prom",
    } <= set(PATHS)


def test_every_make_target_in_contributing_exists() -> None:
    named = {target for code in CODE if code.startswith("make ") for target in code.split()[1:] if "=" not in target}
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"check", "test", "test-deep", "requirements"} <= named
    assert named <= targets


def test_the_citation_has_the_version_of_the_program() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == release.version_of((ROOT / "CMakeLists.txt").read_text())


def test_there_is_one_repository() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    home = project["urls"]["Homepage"]
    owner = home.rsplit("/", 1)[0].removeprefix("https://")
    others = {
        found
        for path in source_files(".md", ".toml", ".cff", ".yml", ".yaml", ".json", ".service")
        for found in re.findall(rf"{re.escape(owner)}/[\w.-]*\w", (ROOT / path).read_text())
    }
    assert others == {home.removeprefix("https://")}
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["repository-code"] == home

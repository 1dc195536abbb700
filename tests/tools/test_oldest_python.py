"""The package uses nothing that its oldest Python lacks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[2] / "python"
# Names of the standard library that came after Python 3.9.
LATER = {
    "contextlib": {"aclosing", "chdir"},
    "dataclasses": {"KW_ONLY"},
    "datetime": {"UTC"},
    "enum": {"StrEnum"},
    "inspect": {"get_annotations"},
    "itertools": {"batched", "pairwise"},
    "tomllib": {"load", "loads"},
    "types": {"EllipsisType", "NoneType", "NotImplementedType", "UnionType"},
}
# Arguments that came after it.
LATER_ARGUMENTS = {"zip": {"strict"}, "dataclass": {"kw_only", "slots"}}


def imported_later_names(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            later = LATER.get(node.module or "", set())
            found += [f"{node.module}.{name.name}" for name in node.names if name.name in later]
    return found


def later_arguments(source: str) -> list[str]:
    return [
        f"{node.func.id}({keyword.arg}=), line {node.lineno}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        for keyword in node.keywords
        if keyword.arg in LATER_ARGUMENTS.get(node.func.id, set())
    ]


def test_imports_are_recognized() -> None:
    assert imported_later_names("from itertools import chain, pairwise") == ["itertools.pairwise"]
    assert imported_later_names("from itertools import chain") == []
    assert later_arguments("zip(a, b, strict=True)") == ["zip(strict=), line 1"]
    assert later_arguments("zip(a, b)") == []


@pytest.mark.parametrize("later", [imported_later_names, later_arguments])
def test_the_packages_use_nothing_later(later: Callable[[str], list[str]]) -> None:
    files = sorted(
        path for folder in ("vram", "pytest_vram", "tensorboard_vram") for path in (PACKAGES / folder).rglob("*.py")
    )
    found = {str(path.relative_to(PACKAGES)): later(path.read_text()) for path in files}
    assert len(files) > 100
    assert {path: names for path, names in found.items() if names} == {}

"""The package imports nothing that its oldest Python lacks."""

from __future__ import annotations

import ast
from pathlib import Path

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


def imported_later_names(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            later = LATER.get(node.module or "", set())
            found += [f"{node.module}.{name.name}" for name in node.names if name.name in later]
    return found


def test_imports_are_recognized() -> None:
    assert imported_later_names("from itertools import chain, pairwise") == ["itertools.pairwise"]
    assert imported_later_names("from itertools import chain") == []


def test_the_packages_import_no_later_name() -> None:
    files = sorted(
        path for folder in ("vram", "pytest_vram", "tensorboard_vram") for path in (PACKAGES / folder).rglob("*.py")
    )
    found = {str(path.relative_to(PACKAGES)): imported_later_names(path.read_text()) for path in files}
    assert len(files) > 100
    assert {path: names for path, names in found.items() if names} == {}

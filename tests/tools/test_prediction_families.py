"""The training programs of bench/prediction are entered in families.py, and its scripts know all halves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_files import ROOT

FOLDER = ROOT / "bench" / "prediction"
FAMILIES = ast.parse((FOLDER / "families.py").read_text())
HALVES = ["choose", "prove", "fresh", "blind", "unseen", "later", "further"]


def programs(path: Path) -> Iterator[str]:
    """Yields the functions of a file that build a program: those with a setup as their only argument."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef) and [argument.arg for argument in node.args.args] == ["setup"]:
            assert node.returns is not None
            if ast.unparse(node.returns) == "Step":
                yield node.name


def entered() -> Iterator[tuple[str, str, str]]:
    """Yields the half, module and name of each program in FAMILIES."""
    for node in ast.walk(FAMILIES):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in HALVES:
            module, name = ast.unparse(node.args[0]).split(".")
            yield node.func.id, module, name


@pytest.mark.parametrize("half", ["fresh", "blind", "unseen", "later", "further"])
def test_each_program_of_a_half_is_entered_once(half: str) -> None:
    written = {(path.stem, name) for path in FOLDER.glob(f"{half}_*.py") for name in programs(path)}
    assert written
    found = [(module, name) for each, module, name in entered() if each == half]
    assert sorted(found) == sorted(written)


def test_names_are_distinct() -> None:
    names = [name for _, _, name in entered()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("script", ["batches.py", "capacities.py", "measure.py"])
def test_scripts_know_all_halves(script: str) -> None:
    calls = [node for node in ast.walk(ast.parse((FOLDER / script).read_text())) if isinstance(node, ast.Call)]
    found = [call for call in calls if call.args and ast.unparse(call.args[0]) == "'--half'"]
    assert [
        ast.literal_eval(keyword.value) for call in found for keyword in call.keywords if keyword.arg == "choices"
    ] == [HALVES]

"""The examples in the package's docstrings run unchanged on a machine without a GPU, and each asserts something; and the public
names are what users see: they report the module that they are imported from, and their types are public.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import pickle
import pkgutil
import traceback
import typing
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from documented import examples_of, examples_of_class, failures

import vram
from vram import _installed

# The modules of vram.notebook import IPython, which is in the environment of tests/frameworks only.
MODULES = [
    found.name
    for found in pkgutil.walk_packages(vram.__path__, "vram.")
    if not found.name.endswith("__main__") and not found.name.startswith("vram.notebook._")
]
PUBLIC = [vram, vram.callbacks, vram.cupy, vram.jax, vram.keras, vram.tensorflow]
NAMES = [(module, name) for module in PUBLIC for name in module.__all__ if name != "__version__"]
CLASSES = [(module, name) for module, name in NAMES if inspect.isclass(getattr(module, name))]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as if it were installed, with its program, in a folder."""
    metadata = tmp_path / "lib" / "vram.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: vram\nVersion: 1.2.3\n")
    (metadata / "RECORD").write_text("../bin/vram,,\n")
    monkeypatch.delenv("VRAM_PROGRAM", raising=False)
    monkeypatch.setattr(_installed, "_distribution", lambda: Distribution.at(metadata))


@pytest.mark.usefixtures("frameworks", "installed")
@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    assert failures(examples_of(name)) == 0


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_examples_of_class(module: ModuleType, name: str) -> None:
    assert failures(examples_of_class(module, name)) == 0


def test_examples_of_methods_are_found() -> None:
    names = {test.name for test in examples_of_class(vram, "Cleaner")}
    assert names == {"Cleaner", "Cleaner.step", "Cleaner.epoch", "Cleaner.end"}


def swallows_errors(example: doctest.Example) -> bool:
    """An example that catches an error without showing it can't fail."""
    return not example.want and any(isinstance(node, ast.Try) for node in ast.walk(ast.parse(example.source)))


def test_no_example_swallows_errors() -> None:
    tests = [test for name in MODULES for test in examples_of(name)]
    tests += [test for module, name in CLASSES for test in examples_of_class(module, name)]
    assert [(test.name, each.source) for test in tests for each in test.examples if swallows_errors(each)] == []


def test_every_public_function_has_an_example() -> None:
    functions = [thing for module, name in NAMES if inspect.isfunction(thing := getattr(module, name))]
    assert len(functions) > 30
    assert [each.__qualname__ for each in functions if ">>>" not in (each.__doc__ or "")] == []


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_reports_the_module_that_it_is_imported_from(module: ModuleType, name: str) -> None:
    thing = getattr(module, name)
    if not inspect.ismodule(thing):
        assert f"{thing.__module__}.{thing.__qualname__}" == f"{module.__name__}.{name}"
        assert pickle.loads(pickle.dumps(thing)) is thing


def test_errors_are_shown_by_their_public_name() -> None:
    error = vram.VramError("no GPU")
    assert traceback.format_exception_only(type(error), error) == ["vram.VramError: no GPU\n"]
    assert str(pickle.loads(pickle.dumps(error))) == "no GPU"


def named_in(hint: Any) -> set[type]:
    """The package's classes in a type hint."""
    own = {hint} if inspect.isclass(hint) and hint.__module__.startswith("vram") else set()
    return own.union(*map(named_in, hint if isinstance(hint, list) else typing.get_args(hint)))


def hints_of(thing: Any) -> list[Any]:
    """Of a function, or of a class, its public methods and properties."""
    members = vars(thing).items() if inspect.isclass(thing) else ()
    public = [member.fget if isinstance(member, property) else member for name, member in members if name[0] != "_"]
    annotated = [each for each in (thing, *public) if inspect.isclass(each) or inspect.isfunction(each)]
    return [hint for each in annotated for hint in typing.get_type_hints(each, localns={"torch": torch}).values()]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_the_types_in_public_signatures_are_public(module: ModuleType, name: str) -> None:
    named = {kind for hint in hints_of(getattr(module, name)) for kind in named_in(hint)}
    assert {kind.__module__ for kind in named} <= {module.__name__ for module in PUBLIC}

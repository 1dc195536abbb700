"""The examples in the package's docstrings run unchanged on a machine without a GPU, and each asserts something."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
from importlib.metadata import Distribution
from pathlib import Path

import pytest

import vram
from vram import _installed

MODULES = [found.name for found in pkgutil.walk_packages(vram.__path__, "vram.") if not found.name.endswith("__main__")]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as if it were installed, with its program, in a folder."""
    metadata = tmp_path / "lib" / "vram.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: vram\nVersion: 1.2.3\n")
    (metadata / "RECORD").write_text("../bin/vram,,\n")
    monkeypatch.setattr(_installed, "_distribution", lambda: Distribution.at(metadata))


@pytest.mark.usefixtures("frameworks", "installed")
@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0


def swallows_errors(example: doctest.Example) -> bool:
    """An example that catches an error without showing it can't fail."""
    return not example.want and any(isinstance(node, ast.Try) for node in ast.walk(ast.parse(example.source)))


@pytest.mark.parametrize("name", MODULES)
def test_no_example_swallows_errors(name: str) -> None:
    tests = doctest.DocTestFinder().find(importlib.import_module(name))
    found = [
        f"{test.name}: {example.source}" for test in tests for example in test.examples if swallows_errors(example)
    ]
    assert found == []


PUBLIC = [vram, vram.callbacks, vram.cupy, vram.jax, vram.tensorflow]


def test_every_public_function_has_an_example() -> None:
    functions = [
        getattr(module, name)
        for module in PUBLIC
        for name in getattr(module, "__all__", vars(module))
        if not name.startswith("_") and inspect.isfunction(getattr(module, name))
    ]
    own = [function for function in functions if function.__module__.startswith("vram")]
    assert len(own) > 30
    inner = {
        "framework_of",
        "last_error",
        "library",
        "parse_limit",
        "require_at_least",
        "status_text",
    }  # imported there, and no part of what is shown
    missing = [each.__qualname__ for each in own if ">>>" not in (each.__doc__ or "") and each.__name__ not in inner]
    assert missing == []

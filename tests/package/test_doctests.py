"""The examples in the package's docstrings run as they stand, on a machine without a GPU."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import vram

MODULES = [found.name for found in pkgutil.walk_packages(vram.__path__, "vram.") if not found.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    assert any(test.examples for name in MODULES for test in finder.find(importlib.import_module(name)))

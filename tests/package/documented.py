"""The examples in docstrings, found and run."""

from __future__ import annotations

import doctest
import importlib
from types import ModuleType


def examples_of(module: str) -> list[doctest.DocTest]:
    """Of the module's functions and private classes."""
    return doctest.DocTestFinder().find(importlib.import_module(module))


def examples_of_class(module: ModuleType, name: str) -> list[doctest.DocTest]:
    """Of a class and its methods, by the module that users import it from; it is defined elsewhere."""
    found = doctest.DocTestFinder().find(getattr(module, name), name, module=False, globs=vars(module).copy())
    return [test for test in found if test.examples]


def failures(tests: list[doctest.DocTest]) -> int:
    """Return how many examples failed."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    return sum(runner.run(test).failed for test in tests)

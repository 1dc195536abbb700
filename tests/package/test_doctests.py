"""The examples in the package's docstrings run as they stand, on a machine without a GPU."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest

import vram

MODULES = [found.name for found in pkgutil.walk_packages(vram.__path__, "vram.") if not found.name.endswith("__main__")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


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
    inner = {"framework_of", "library", "parse_limit", "status_text"}  # imported there, and no part of what is shown
    missing = [each.__qualname__ for each in own if ">>>" not in (each.__doc__ or "") and each.__name__ not in inner]
    assert missing == []

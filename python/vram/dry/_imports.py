"""Modules of PyTorch that a dry run changes only if the program imports them, because that takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from vram.dry._patches import Patches


class _Then(Loader):
    """Loads a module as another loader does, and calls a function with it."""

    def __init__(self, loader: Any, call: Callable[[ModuleType], None]) -> None:
        self._loader, self._call = loader, call

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._call(module)


class _Finder(MetaPathFinder):
    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call
        self._is_searching = False

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:  # noqa: ARG002
        if fullname != self._name or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = find_spec(fullname)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._call)
        return spec


def when_imported(patches: Patches, name: str, call: Callable[[ModuleType], None]) -> None:
    """Call a function with a module: now, or as soon as the program imports it."""
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    finder = _Finder(name, call)
    sys.meta_path.insert(0, finder)
    patches.on_undo(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)

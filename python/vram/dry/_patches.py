"""What a dry run puts into PyTorch for its duration: one way in, one way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Replaced attributes, and calls that end other changes: taken back in the opposite order by undo()."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        before = owner.__dict__.get(name, _MISSING)
        self.on_undo(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))
        setattr(owner, name, value)

    def put_where_found(self, owner: Any, values: dict[str, Any]) -> None:
        """Put the values whose name `owner` has in this version of PyTorch."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.put(owner, name, value)

    def on_undo(self, call: Callable[[], None]) -> None:
        self._undo.append(call)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

"""What a dry run puts into PyTorch for its duration: one way in, one way out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """Replaced attributes, and calls that end other changes, which may be repeated: taken back in the opposite order by undo()."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        before = owner.__dict__.get(name, _MISSING)

        def restore() -> None:
            if before is not _MISSING:
                setattr(owner, name, before)
            elif name in owner.__dict__:
                delattr(owner, name)

        self.on_undo(restore)
        setattr(owner, name, value)

    def put_where_found(self, owner: Any, values: dict[str, Any]) -> None:
        """Put the values whose name `owner` has in this version of PyTorch."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.put(owner, name, value)

    def on_undo(self, call: Callable[[], None]) -> None:
        self._undo.append(call)

    def undo(self) -> None:
        """Take everything back, also if it is interrupted or a call fails; the error is raised afterwards."""
        try:
            while self._undo:
                self._undo[-1]()
                self._undo.pop()
        except BaseException:
            with contextlib.suppress(BaseException):
                self._undo.pop()()  # it may have been interrupted before it did anything
            self.undo()
            raise

"""What a dry run puts into PyTorch for its duration: one way in, one way out."""

from __future__ import annotations

from typing import Any

_MISSING = object()


class Patches:
    """Replaced attributes, put back in the opposite order by undo()."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((owner, name, owner.__dict__.get(name, _MISSING)))
        setattr(owner, name, value)

    def put_where_found(self, owner: Any, values: dict[str, Any]) -> None:
        """Put the values whose name `owner` has in this version of PyTorch."""
        for name, value in values.items():
            if hasattr(owner, name):
                self.put(owner, name, value)

    def undo(self) -> None:
        while self._before:
            owner, name, value = self._before.pop()
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)

"""Whether a tensor was changed in place, by PyTorch's own count of such changes."""

from __future__ import annotations

from typing import Any

from vram._error import VramError
from vram._texts import tr
from vram.recover import _trees


def version_of(tensor: Any) -> int:
    """0 where nothing counts: of arrays, and of tensors made in inference mode."""
    if not hasattr(tensor, "is_inference") or tensor.is_inference():
        return 0
    return int(tensor._version)


class Versions:
    """Of the tensors of a batch, when this was made."""

    def __init__(self, batch: Any) -> None:
        self._versions = [(path, tensor, version_of(tensor)) for path, tensor in _trees.tensors(batch)]

    def require_unchanged(self, who: str) -> None:
        """Before the same samples are used again. VramError: they are others now."""
        for path, tensor, version in self._versions:
            if version_of(tensor) != version:
                raise VramError(
                    tr(
                        "{} changes {} in place: called again, or for parts of it, it would change what it has "
                        "changed already. Let it change a copy"
                    ).format(who, path)
                )

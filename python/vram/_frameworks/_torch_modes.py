"""A mode of PyTorch's dispatcher under which a step is run without talking to other ranks.

Imports PyTorch: imported itself only once the program has.
"""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from vram._error import VramError


class Silent(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it a collective raises VramError before anything is sent."""

    def __init__(self, why: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._why = why

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "c10d" in func.namespace:
            raise VramError(self._why)
        return func(*args, **(kwargs or {}))

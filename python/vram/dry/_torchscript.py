"""Functions of TorchScript, which a dry run calls as the Python functions that they were made of: its interpreter knows no tensors without memory."""

from __future__ import annotations

from typing import Any

import torch

from vram.dry._patches import Patches


def put_in_place(patches: Patches) -> None:
    compiled = torch.jit.ScriptFunction.__call__

    def called(function: Any, *args: Any, **kwargs: Any) -> Any:
        original = getattr(function, "_torchdynamo_inline", None)  # what torch.jit.script() was given
        if original is None:
            return compiled(function, *args, **kwargs)
        return original(*args, **kwargs)

    patches.put(torch.jit.ScriptFunction, "__call__", called)

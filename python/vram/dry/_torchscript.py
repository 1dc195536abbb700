"""Modules and functions of TorchScript, which a dry run calls as the Python code that they were made of.

The interpreter of TorchScript knows no tensors without memory.
"""

from __future__ import annotations

from typing import Any

import torch

from vram._texts import tr
from vram.dry._lines import users_line, warn
from vram.dry._patches import Patches
from vram.dry._readers import is_logged
from vram.dry._values import DryRunError


def put_in_place(patches: Patches) -> None:
    compiled = torch.jit.ScriptFunction.__call__

    def called(function: Any, *args: Any, **kwargs: Any) -> Any:
        original = getattr(function, "_torchdynamo_inline", None)  # what torch.jit.script() was given
        if original is None:
            return compiled(function, *args, **kwargs)
        return original(*args, **kwargs)

    script = torch.jit.script

    def scripted(obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(obj, torch.nn.Module):
            return _left(obj)
        # It looks names up in the frame of its caller, which this one is not.
        kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
        return script(obj, *args, **kwargs)

    def traced(func: Any, *_args: Any, **_kwargs: Any) -> Any:
        if is_logged():
            raise DryRunError(
                tr("{}: a dry run traces no graph of a model; leave add_graph() out of the dry run").format(
                    users_line()
                )
            )
        return _left(func)

    patches.put(torch.jit.ScriptFunction, "__call__", called)
    patches.put(torch.jit, "script", scripted)
    patches.put(torch.jit, "trace", traced)


def _left(code: Any) -> Any:
    """Return Python code as it is, in place of what TorchScript would make of it."""
    warn(tr("a dry run does not compile: it predicts the memory of the uncompiled program"))
    if isinstance(code, torch.nn.Module) and not hasattr(code, "save"):
        object.__setattr__(code, "save", lambda *_args, **_kwargs: None)  # as a module of TorchScript has
    return code

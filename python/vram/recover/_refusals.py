"""Hooks within backward that see a micro-batch's gradients where they would see the whole batch's: not split, therefore."""

from __future__ import annotations

import sys
from typing import Any

from vram._error import VramError
from vram._texts import tr, tr_later
from vram.recover._gradients import is_foreign

_WITHIN_BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
_TOO_LARGE = tr_later("the whole batch did not fit, and it can't be split: ")


def refuse_to_split(models: list[Any]) -> None:
    """VramError: a module, or PyTorch for all modules, has hooks within backward; or parameters that have no values yet."""
    if any(_is_uninitialized(parameter) for model in models for parameter in model.parameters()):
        raise VramError(
            tr(
                "{}a lazy module has not run yet, and would draw its parameters while parts are "
                "compared. Run the model on one sample before"
            ).format(tr(_TOO_LARGE))
        )
    everywhere: Any = sys.modules["torch.nn.modules.module"]
    for name in _WITHIN_BACKWARD:
        if any(map(is_foreign, (getattr(everywhere, f"_global{name}", None) or {}).values())):
            raise _refusal(tr("a hook for the backward of all modules is registered"))
        for module in (module for model in models for module in model.modules()):
            if any(map(is_foreign, (getattr(module, name, None) or {}).values())):
                raise _refusal(tr("a {} has a hook within backward").format(type(module).__name__))


def _is_uninitialized(parameter: Any) -> bool:
    return any(kind.__name__ == "UninitializedTensorMixin" for kind in type(parameter).__mro__)


def refuse_hook(hook: Any) -> None:
    """VramError: step() registers a hook on a tensor."""
    if is_foreign(hook):
        raise _refusal(tr("step() registers a hook on a tensor"))


def _refusal(what: str) -> VramError:
    return VramError(
        tr(
            "{}{}. It would see, and could change, each micro-batch's gradients instead of the whole "
            "batch's. Remove it, or do its work after vram.micro_batches (hooks of parameters "
            "themselves are run once, at the end)"
        ).format(tr(_TOO_LARGE), what)
    )

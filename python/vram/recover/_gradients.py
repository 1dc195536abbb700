"""Gradients while a batch may have to be run again: what earlier batches accumulated is set aside, not copied.

The parameters start the batch with no gradient, so that an attempt that failed is undone by dropping what it left. In
the end the new gradient is added to the one set aside, as autograd would have done. That costs memory only under
accumulation: a second set of gradients while the batch runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vram._error import VramError


def parameters_of(models: list[Any], optimizer: Any) -> list[Any]:
    """Those that get gradients, each once. VramError: none was given, or some are stepped within backward."""
    if not models and optimizer is None:
        raise VramError(
            "which gradients to restore after a failure is not known; pass model=, the module (or a list of them) that "
            "step() trains, or optimizer="
        )
    found = {id(parameter): parameter for parameter in _all(models, optimizer) if parameter.requires_grad}
    for parameter in found.values():
        _refuse_steps_in_backward(parameter)
    return list(found.values())


def _all(models: list[Any], optimizer: Any) -> Iterator[Any]:
    for model in models:
        yield from model.parameters()
    for group in optimizer.param_groups if optimizer is not None else ():
        yield from group["params"]


def _refuse_steps_in_backward(parameter: Any) -> None:
    hooks = (getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()
    foreign = [hook for hook in hooks if not str(getattr(hook, "__module__", "")).startswith("vram.")]
    if foreign or hasattr(parameter, "_in_backward_optimizers"):
        raise VramError(
            "a parameter has a hook that runs within backward once its gradient is there (an optimizer that steps in "
            "backward, say): what it did can't be undone for another try, and it would run once for each micro-batch. "
            "Remove it, or call backward without vram.micro_batches"
        )


class Gradients:
    """Of these parameters, for one batch. One thread."""

    def __init__(self, parameters: list[Any]) -> None:
        self._parameters = parameters
        self._earlier = [parameter.grad for parameter in parameters]
        self._with_earlier = {id(p) for p, earlier in zip(parameters, self._earlier) if earlier is not None}
        self.drop()

    def drop(self) -> None:
        """What the current attempt has left."""
        for parameter in self._parameters:
            parameter.grad = None

    def taken(self) -> list[Any]:
        """What the current attempt has left, taken away from the parameters."""
        gradients = [parameter.grad for parameter in self._parameters]
        self.drop()
        return gradients

    def has(self, parameter: Any) -> bool:
        """Whether it has a gradient, of the batch or an earlier one."""
        return parameter.grad is not None or id(parameter) in self._with_earlier

    def put_back(self) -> None:
        """As before the batch."""
        for parameter, earlier in zip(self._parameters, self._earlier):
            parameter.grad = earlier

    def accumulate(self) -> None:
        """The earlier ones and those of the batch. Allocates nothing."""
        for parameter, earlier in zip(self._parameters, self._earlier):
            if earlier is not None:
                if parameter.grad is not None:
                    earlier.add_(parameter.grad)
                parameter.grad = earlier

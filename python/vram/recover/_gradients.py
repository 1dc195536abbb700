"""Gradients while a batch may have to be run again: what earlier batches accumulated is set aside, not copied.

Tensors start the batch with no gradient, so that an attempt that failed is undone by dropping what it left. In the end the
new gradient is added to the one set aside, as autograd would have done. That costs memory only under accumulation: a
second set of gradients while the batch runs.

Parameters that `model` does not contain (a loss's own, one that step() unfreezes) and inputs that require gradients are found in the
graph before each backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from vram._error import VramError
from vram._texts import tr, tr_later
from vram.recover._changed import version_of

_DROPS = tr_later(
    "step() {}: those of earlier batches or micro-batches would be lost. Do that outside "
    "vram.micro_batches, once for the whole batch"
)


def parameters_of(models: list[Any], optimizer: Any) -> list[Any]:
    """Those that get gradients, each once. VramError: some are stepped within backward."""
    found = {id(parameter): parameter for parameter in _all(models, optimizer) if parameter.requires_grad}
    for parameter in found.values():
        refuse_steps_in_backward(parameter)
    return list(found.values())


def _all(models: list[Any], optimizer: Any) -> Iterator[Any]:
    for model in models:
        yield from model.parameters()
    for group in optimizer.param_groups if optimizer is not None else ():
        yield from group["params"]


def is_foreign(hook: Any) -> bool:
    return not str(getattr(hook, "__module__", "")).startswith("vram.")


def refuse_steps_in_backward(parameter: Any) -> None:
    hooks = (getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values()
    if any(map(is_foreign, hooks)) or hasattr(parameter, "_in_backward_optimizers"):
        raise VramError(
            tr(
                "a parameter has a hook that runs within backward once its gradient is there (an "
                "optimizer that steps in backward, say): what it did can't be undone for another try, "
                "and it would run once for each micro-batch. Remove it, or call backward without "
                "vram.micro_batches"
            )
        )


def _hooks(tensor: Any) -> list[Any]:
    """Those that register_hook() has put there, unless they are vram's."""
    return list(filter(is_foreign, (getattr(tensor, "_backward_hooks", None) or {}).values()))


@dataclass
class _Entry:
    tensor: Any
    earlier: Any  # its gradient before the batch
    merged: Any = None  # that and the batch's, where they can't be added in place
    reached: bool = False  # by a backward pass of the current step()

    @property
    def layout(self) -> int:
        """Of what accumulate() will leave: 0 is no gradient, 1 a dense one, 2 + n a sparse one of n sparse dimensions."""
        found = [grad for grad in (self.merged, self.earlier, self.tensor.grad) if grad is not None]
        if not found:
            return 0
        return max(2 + grad.sparse_dim() for grad in found) if all(grad.is_sparse for grad in found) else 1


class Gradients:
    """Of these tensors, for one batch. One thread. Nothing changes before set_aside()."""

    def __init__(self, parameters: list[Any]) -> None:
        self._parameters = parameters
        self._entries: dict[int, _Entry] = {}
        # Tensors that came up in backward, had no gradient and are no parameters: weak, and in which run. By id().
        self._passing: dict[int, tuple[Any, int]] = {}
        self._runs = 0
        self._apart: list[tuple[Any, Any]] | None = None  # hooks that do not run now, and what was in them

    def set_aside(self) -> None:
        for parameter in self._parameters:
            self._enter(parameter)

    def begin_run(self) -> None:
        """Of a micro-batch."""
        self._runs += 1

    def adopt(self, leaf: Any) -> None:
        """Before a backward pass that adds to its gradient."""
        known = self._entries.get(id(leaf))
        if known is not None and known.tensor is leaf:
            known.reached = True
            if leaf.grad is known.earlier:
                leaf.grad = None
            return
        reference, run = self._passing.get(id(leaf), (None, 0))
        if reference is not None and reference() is leaf:
            if run != self._runs:  # it lives longer than a run: it is trained, or an input
                self._entries[id(leaf)] = _Entry(leaf, None)
            return
        refuse_steps_in_backward(leaf)
        if leaf.grad is None and type(leaf).__name__ != "Parameter" and not _hooks(leaf):
            import torch.utils.weak  # the program has imported PyTorch; made within step(), it must not live longer

            self._passing[id(leaf)] = torch.utils.weak.TensorWeakRef(leaf), self._runs
        else:
            self._enter(leaf)

    def _enter(self, tensor: Any) -> None:
        self._entries[id(tensor)] = _Entry(tensor, tensor.grad)
        tensor.grad = None
        self._take_hooks(tensor)

    @contextmanager
    def visible(self) -> Iterator[None]:
        """Within it, around step(), tensors have their earlier gradients until a backward pass adds to them.

        VramError: step() has dropped, replaced or changed gradients that are not its own.
        """
        before = []
        for entry in self._entries.values():
            entry.reached = False
            if entry.tensor.grad is None:
                entry.tensor.grad = entry.earlier
            before.append((entry, entry.tensor.grad, version_of(entry.tensor.grad)))
        try:
            yield
            if any(not e.reached and (e.tensor.grad is not grad or version_of(grad) != v) for e, grad, v in before):
                raise VramError(tr(_DROPS).format(tr("drops or changes gradients")))
        finally:
            for entry, _, _ in before:
                if entry.tensor.grad is entry.earlier:
                    entry.tensor.grad = None

    def refuse_to_zero(self, tensors: list[Any], split: bool) -> None:
        """Before step() zeroes their gradients. VramError: those of earlier batches, or of this one's parts, would be lost."""
        for tensor in tensors:
            entry = self._entries.get(id(tensor))
            if split or (entry is not None and entry.tensor is tensor and entry.earlier is not None):
                raise VramError(tr(_DROPS).format(tr("calls zero_grad()")))

    def drop(self) -> None:
        """What the current attempt has left."""
        for entry in self._entries.values():
            entry.tensor.grad = entry.merged = None
        for tensor in self._still_passing():
            tensor.grad = None
        self._passing.clear()

    def current(self) -> dict[int, Any]:
        """What the current attempt has left, by id() of the tensor, first of those that live longer than a run; None: nothing."""
        tensors = [*(entry.tensor for entry in self._entries.values()), *self._still_passing()]
        return {id(tensor): tensor.grad for tensor in tensors}

    def lasting(self) -> set[int]:
        """The tensors that live longer than a run, by id()."""
        return set(self._entries)

    def _still_passing(self) -> list[Any]:
        return [tensor for reference, _ in self._passing.values() if (tensor := reference()) is not None]

    def layout(self, parameter: Any) -> int:
        """See _Entry."""
        entry = self._entries.get(id(parameter))
        return entry.layout if entry is not None else _Entry(parameter, None).layout

    def give(self, parameter: Any, make: Any) -> None:
        """Gives it what `make` makes of its whole gradient, or of None."""
        entry = self._entries.get(id(parameter)) or self._entries.setdefault(id(parameter), _Entry(parameter, None))
        entry.merged = make(next((g for g in (entry.merged, entry.earlier, parameter.grad) if g is not None), None))

    def put_back(self) -> None:
        """As before the batch."""
        self.drop()
        for entry in self._entries.values():
            entry.tensor.grad = entry.earlier

    def merge(self) -> None:
        """Adds where that takes memory: what is sparse, before or now. The rest is left to accumulate()."""
        for entry in self._entries.values():
            new, earlier = entry.tensor.grad, entry.earlier
            if new is not None and earlier is not None and (new.is_sparse or earlier.is_sparse):
                # A dense one first, as autograd adds them: the other way round it is not implemented.
                entry.merged = new + earlier if earlier.is_sparse else earlier + new

    def accumulate(self) -> None:
        """The earlier ones and those of the batch. After merge() it allocates nothing."""
        for entry in self._entries.values():
            tensor, earlier = entry.tensor, entry.earlier
            if entry.merged is not None:
                tensor.grad = entry.merged
            elif earlier is not None:
                if tensor.grad is not None:
                    earlier.add_(tensor.grad)
                tensor.grad = earlier

    @contextmanager
    def hooks_apart(self) -> Iterator[None]:
        """Within it the tensors' own hooks do not run. They are called by run_hooks(), once for the whole batch."""
        self._apart = []
        for entry in self._entries.values():
            self._take_hooks(entry.tensor)
        try:
            yield
        finally:
            for hooks, before in self._apart:
                hooks.update(before)
            self._apart = None

    def _take_hooks(self, tensor: Any) -> None:
        if self._apart is not None and _hooks(tensor):
            hooks = tensor._backward_hooks
            self._apart.append((hooks, dict(hooks)))
            hooks.clear()

    def run_hooks(self) -> None:
        """With the gradients of the batch, in the order in which they were registered. May take memory."""
        for entry in self._entries.values():
            for hook in _hooks(entry.tensor) if entry.tensor.grad is not None else ():
                changed = hook(entry.tensor.grad)
                entry.tensor.grad = entry.tensor.grad if changed is None else changed

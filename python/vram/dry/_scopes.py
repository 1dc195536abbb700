"""Modules, phases, names and steps of a dry run: the program does not call vram.watch(), so its models are found by their calls."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable

import torch
from torch.nn.parameter import is_lazy
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from vram import _marks
from vram._error import VramError
from vram.dry import _linear
from vram.dry._models import Parameter
from vram.dry._patches import Patches
from vram.dry._tape import Tape
from vram.watching._calls import is_watched
from vram.watching._optimizers import WatchedOptimizer, with_closure
from vram.watching._phases import place
from vram.watching._watch import Watch


class _QuietWatch(Watch):
    """A watch that puts no hooks on gradients, because hooks can change when memory is freed. The optimizer names them."""

    def _name_gradients_as_they_come(self) -> list[Any]:
        return []


class Scopes:
    """Watches every model that is called, and every optimizer that steps.

    Args:
        after_step: Called after each step of the optimizer that stepped first, with the number of its steps.
    """

    def __init__(self, after_step: Callable[[int], None]) -> None:
        self._after_step = after_step
        self._watches: list[tuple[Any, Watch]] = []
        self._optimizers: dict[int, WatchedOptimizer] = {}
        self._first: int | None = None
        self.steps = 0
        self.has_states = False  # of the optimizer that stepped first
        self._has_begun = self._is_marked_by_program = False
        self._mark = _marks.step

    def put_in_place(self, patches: Patches, tape: Tape) -> None:
        before = torch.nn.Module.__call__
        self._tape = tape

        @functools.wraps(before)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not place.in_call:
                self._begin()
                if not is_watched(module):
                    self._find(module)
            return before(module, *args, **kwargs)

        def marked() -> None:
            self._is_marked_by_program = True
            self._mark()

        patches.put(torch.nn.Module, "__call__", call)
        patches.put(_marks, "step", marked)
        self._hooks = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._stepped),
        ]

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters of all watched models, by name."""
        found = {}
        for model, _ in self._watches:
            sizes = {id(part.weight): sizes for part in model.modules() if (sizes := _linear.sizes_of(part))}
            for name, each in model.named_parameters():
                if is_lazy(each):  # of a lazy module that was not called
                    continue
                _, outputs = sizes.get(id(each), (0, 0))
                found[name] = Parameter(each.numel(), each.element_size(), outputs, each.requires_grad)
        return found

    def stop(self) -> None:
        for hook in self._hooks:
            hook.remove()
        for _, watch in self._watches:
            watch.stop()
        for optimizer in self._optimizers.values():
            optimizer.stop()
        _marks.end_trail()

    def _begin(self) -> None:
        """Begin the first step with the first call of a model, unless the program marks its steps."""
        if not self._has_begun:
            self._has_begun = True
            if not self._is_marked_by_program:
                self._mark()

    def _find(self, module: Any) -> None:
        parts = {id(part) for part in module.modules()}
        for model, watch in self._watches:
            if id(model) in parts:
                watch.stop()
        with contextlib.suppress(VramError):  # a part is watched by the program itself
            self._watches.append((module, _QuietWatch(module, [], "", None)))

    def _name_of(self, parameter: Any) -> str | None:
        names = (watch._name_of(parameter) for _, watch in reversed(self._watches))
        return next((name for name in names if name is not None), None)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        self._tape.is_in_optimizer = True
        if id(optimizer) not in self._optimizers:
            if self._first is None:
                self._first = id(optimizer)
            self._optimizers[id(optimizer)] = WatchedOptimizer(optimizer, self._name_of, lambda: None)
        return with_closure(args, kwargs, self._outside)

    def _outside(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(closure)
        def run(*args: Any, **kwargs: Any) -> Any:
            self._tape.is_in_optimizer = False
            try:
                return closure(*args, **kwargs)
            finally:
                self._tape.is_in_optimizer = True

        return run

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self._tape.is_in_optimizer = False
        if id(optimizer) == self._first:
            self.steps += 1
            self.has_states = bool(optimizer.state)
            if not self._is_marked_by_program:
                self._mark()
            self._after_step(self.steps)

"""The order in which autograd runs a graph that a backward pass has made, such as a penalty on a gradient.

Of the functions that can run, autograd takes the one with the highest sequence number first. A thread counts them by itself, from 0: the program's
functions get their numbers in its thread, but those that a backward pass on a GPU makes get theirs in the thread of that GPU. A dry run has one
thread for both. So it gives the functions of backward passes other numbers afterwards: where their own count puts them among the program's.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import torch

from vram.dry._patches import Patches
from vram.dry._tensors import is_on_gpu, leaves

_next_number = torch._C._autograd._get_sequence_nr


class Order:
    """The two counts: the program's is that of this process without what backward passes have counted."""

    def __init__(self) -> None:
        self._backward = 0  # functions that backward passes have made
        # From which count of the program on its functions have numbers that are by how much higher.
        self._since, self._shift = [0], [_next_number()]

    def put_in_place(self, patches: Patches) -> None:
        run = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

        def counted(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            if torch._C._current_graph_task_id() != -1 or not any(map(is_on_gpu, leaves(outputs))):
                return run(outputs, *args, **kwargs)
            first = _next_number()
            try:
                result = run(outputs, *args, **kwargs)
                _, _, makes_graph, *_ = args
                if makes_graph:
                    self._renumber([*leaves(result), *_gradients(outputs)], first)
                return result
            finally:
                self._count(first)

        patches.put(torch.autograd, "_engine_run_backward", counted)

    def _count(self, first: int) -> None:
        """Take note of the functions that a backward pass has made since this number."""
        made = _next_number() - first
        if made:
            self._backward += made
            self._since.append(first - self._shift[-1])
            self._shift.append(self._shift[-1] + made)

    def _renumber(self, gradients: list[Any], first: int) -> None:
        """Give the functions that led to gradients, and have this number or a higher one, those of the thread of a GPU."""
        last = _next_number()
        since, shift = [*self._since, first - self._shift[-1]], [*self._shift, self._shift[-1] + last - first]
        found: dict[Any, int] = {}
        waiting = [each.grad_fn for each in gradients]
        while waiting:
            function = waiting.pop()
            # Those that the program made have lower numbers, and lead to none of these; accumulating a gradient has the highest one.
            if function is not None and function not in found and first <= function._sequence_nr() < last:
                found[function] = self._backward + function._sequence_nr() - first
                waiting += [each for each, _ in function.next_functions]
        for function, number in found.items():
            function._set_sequence_nr(number + shift[bisect_right(since, number) - 1])


def _gradients(outputs: Any) -> Iterator[Any]:
    """The gradients of the parameters that a backward pass has reached."""
    seen = set()
    waiting = [each.grad_fn for each in leaves(outputs)]
    while waiting:
        function = waiting.pop()
        if function is not None and function not in seen:
            seen.add(function)
            variable = getattr(function, "variable", None)
            if variable is not None and variable.grad is not None:
                yield variable.grad
            waiting += [each for each, _ in function.next_functions]

"""What autograd keeps alive: edges from tensors to their graphs, within the graphs, and to what these saved for backward.

The graphs are objects of C++ that Python's collector does not see. Only PyTorch has them.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

_MAX_NAME_LENGTH = 40


def autograd_edges(
    torch: Any, tensors: list[Any], is_wanted: Callable[[Any], bool], in_time: Callable[[], bool]
) -> Iterator[tuple[Any, str, Any]]:
    """Yield (owner, label, owned): tensor to gradient, tensor to graph, node to node, and node to what is wanted.

    `tensors` are all that the program has. Linear in the nodes and what they saved.
    """
    nodes: dict[int, Any] = {}  # keeps their Python objects, whose ids would be used again
    waiting: deque[Any] = deque()
    for tensor in tensors:
        gradient = _get(tensor, "grad") if _get(tensor, "is_leaf") else None
        if gradient is not None:
            yield tensor, ".grad", gradient
        root = _get(tensor, "grad_fn")
        if root is not None and id(root) not in nodes:
            nodes[id(root)] = root
            waiting.append(root)
        if root is not None:
            yield tensor, ".grad_fn", root
    while waiting and in_time():
        node = waiting.popleft()
        for name, saved in _saved_by(torch, node):
            if is_wanted(saved):
                yield node, f".{name}", saved
        for after, _ in _get(node, "next_functions") or ():
            if after is None:
                continue
            if id(after) not in nodes:
                nodes[id(after)] = after
                waiting.append(after)
            yield node, ".next_functions", after


def node_name(torch: Any, item: object) -> str | None:
    """The name of its class, if it is a node of a graph."""
    if not issubclass(type(item), torch.autograd.graph.Node):
        return None
    return type(item).__name__[:_MAX_NAME_LENGTH]


def _saved_by(torch: Any, node: Any) -> Iterator[tuple[str, Any]]:
    variable = _get(node, "variable")  # of AccumulateGrad: a parameter
    if variable is not None:
        yield "variable", variable
    for name in _saved_names(type(node)):  # type: ignore[arg-type]  # a class is hashable
        found = _get(node, name)
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if issubclass(type(each), torch.Tensor):
                yield name, each


@functools.lru_cache(maxsize=1024)
def _saved_names(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name == "saved_tensors" or name.startswith("_saved_"))


def _get(item: Any, name: str) -> Any:
    """None for what is missing, was freed by backward, or belongs to a graph of another kind."""
    try:
        return getattr(item, name)
    except Exception:  # whatever a subclass or a hook raises
        return None

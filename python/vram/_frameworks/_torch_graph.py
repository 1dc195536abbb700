"""The graph that PyTorch's autograd made of a loss, as recovery reads it. Nothing here changes it.

Attributes of nodes that a version of PyTorch does not have are taken as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

_MAX_SCALARS = 200  # nodes between the loss and what it is reduced from
_NUMELS = ("_saved_self_sym_numel", "_saved_self_numel")


def leaves(roots: Iterable[Any]) -> Iterator[Any]:
    """Yields the tensors to whose `.grad` a backward pass from these tensors (or edges of the graph) adds, each once."""
    roots = list(roots)
    for root in roots:
        if not hasattr(root, "node") and root.grad_fn is None and root.requires_grad:
            yield root
    for node in _nodes(root.node if hasattr(root, "node") else root.grad_fn for root in roots):
        if type(node).__name__ == "AccumulateGrad":
            yield node.variable


def dtypes(loss: Any) -> set[str]:
    """Returns the types of what the nodes of the graph have computed."""
    return {str(item.dtype) for node in _nodes([loss.grad_fn]) for item in getattr(node, "_input_metadata", ())}


def divisors(loss: Any) -> list[Any]:
    """Returns what the loss was divided by after it was reduced: counts of elements, of tokens, sums of masks.

    Found between the loss and what it was reduced from, in the order of the graph; numbers, or tensors without dimensions.
    To be called without modes of the dispatcher: those take Python's numbers in a graph for no tensors.
    """
    found: list[Any] = []
    waiting, seen = [loss.grad_fn], 0
    while waiting and seen < _MAX_SCALARS:
        node, seen = waiting.pop(), seen + 1
        if node is None or not _is_scalar(node):
            continue
        name = type(node).__name__
        if name.startswith("NllLoss") and getattr(node, "_saved_reduction", None) == 1:
            found.append(node._saved_total_weight)
        elif name.startswith("Mean"):
            found.extend([int(getattr(node, numel)) for numel in _NUMELS if hasattr(node, numel)][:1])
        elif name.startswith("Div"):
            other = getattr(node, "_saved_other", None)
            if other is not None and other.dim() == 0:
                found.append(
                    other.item() if other.device.type == "cpu" else other.detach()
                )  # others are waited for later
        waiting.extend(following for following, _ in reversed(node.next_functions))
    return found


def _is_scalar(node: Any) -> bool:
    items: Any = getattr(node, "_input_metadata", ())
    return bool(items) and len(items[0].shape) == 0


def _nodes(roots: Iterable[Any]) -> Iterator[Any]:
    """Yields each node once. They are held meanwhile: a new one could have the id() of one that is gone."""
    waiting = [root for root in roots if root is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)

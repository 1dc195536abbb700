"""What the parts of a model are called: as in ``named_modules()``, without the parts that wrappers add to names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# The only child of: DistributedDataParallel and DataParallel, torch.compile, FullyShardedDataParallel, and
# torch's CheckpointWrapper.
_WRAPPED = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})


def _children(module: Any) -> list[tuple[str, Any]]:
    return [(name, child) for name, child in module._modules.items() if child is not None]


def _is_wrapper(module: Any) -> bool:
    children = _children(module)
    return len(children) == 1 and children[0][0] in _WRAPPED


def root_name(model: Any) -> str:
    """The class of what wrappers hold."""
    while _is_wrapper(model):
        model = _children(model)[0][1]
    kind = type(model)
    if kind.__bases__[0].__name__ == "FSDPModule":  # fully_shard() puts a class of its own before the model's
        kind = kind.__bases__[1]
    return kind.__name__


def joined(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def named_modules(model: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Each module once, parents before children. What a wrapper holds has the wrapper's name."""
    seen: set[int] = set()
    waiting = [(prefix, model)]
    while waiting:
        name, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        wraps = _is_wrapper(module)
        children = [(name if wraps else joined(name, leaf), child) for leaf, child in _children(module)]
        waiting.extend(reversed(children))


def named_tensors(model: Any, prefix: str, kind: str) -> Iterator[tuple[str, Any]]:
    """`kind`: "_parameters" or "_buffers". Each tensor once."""
    seen: set[int] = set()
    for name, module in named_modules(model, prefix):
        for leaf, tensor in getattr(module, kind).items():
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield joined(name, leaf), tensor

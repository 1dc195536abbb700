"""The blocks of a model, and a copy of it for planning, on tensors without memory."""

# mypy: allow-untyped-calls

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.parameter import UninitializedParameter
from torch.utils._pytree import tree_leaves, tree_map

from vram._error import VramError
from vram._texts import tr
from vram.planning._regions import Regions
from vram.watching._names import named_modules


def unwrapped(model: Any) -> Any:
    """Return the model inside DistributedDataParallel.

    Raises:
        TypeError: It is no module.
        VramError: It is compiled, already has regions, is wrapped in something else, or has parameters without a shape.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(tr("expected model to be a torch.nn.Module, got {}").format(type(model).__name__))
    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    if any("_vram_regions" in module.__dict__ or _is_block(module) for module in model.modules()):
        raise VramError(tr("the model is checkpointed already; call remove() on what vram.checkpoint() returned first"))
    for name, module in model.named_modules():
        if _is_compiled(module):
            raise VramError(
                tr(
                    "{} is compiled, and no dry run can follow compiled code, which decides itself what to "
                    "keep: plan the model before it is compiled; with compile=True, vram compiles it, "
                    "measures it on the GPU, and chooses the fastest within the budget"
                ).format(name or "the model")
            )
        if isinstance(module, torch.jit.ScriptModule):
            raise VramError(
                tr(
                    "{} is TorchScript, whose forward cannot be replaced; plan the model before "
                    "torch.jit.script() or trace()"
                ).format(name or "the model")
            )
        if isinstance(module, torch.nn.DataParallel):
            raise VramError(
                tr(
                    "torch.nn.DataParallel copies the model in each step, without its regions; use "
                    "torch.nn.parallel.DistributedDataParallel"
                )
            )
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise VramError(
            tr("{} has lazy modules without shapes; call it once with a sample first").format(type(model).__name__)
        )
    return model


def _is_compiled(module: Any) -> bool:
    is_replaced = hasattr(module.__dict__.get("forward"), "_torchdynamo_orig_callable")
    return is_replaced or type(module).__name__ == "OptimizedModule" or module._compiled_call_impl is not None


def _is_block(module: Any) -> bool:
    """Whether it is a block of a model that has regions."""
    function = getattr(module.__dict__.get("forward"), "func", None)
    return isinstance(getattr(function, "__self__", None), Regions)


def blocks_of(model: Any) -> list[tuple[str, Any]]:
    """Return the names and modules of the longest list of blocks of one kind.

    Raises:
        VramError: There is none.
    """
    best: list[tuple[str, Any]] = []
    for name, module in named_modules(model, ""):
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            parts = [(f"{name}.{leaf}" if name else leaf, part) for leaf, part in module._modules.items()]
            kinds = {type(part) for _, part in parts}
            is_repeated = len(kinds) == 1 and any(True for _ in parts[0][1].parameters()) if parts else False
            if is_repeated and len(parts) > max(1, len(best)):
                best = parts
    if not best:
        raise VramError(
            tr(
                "{} has no list of at least two blocks of one class (torch.nn.ModuleList or "
                "torch.nn.Sequential), between which vram can choose; name the modules that run one "
                "after the other: blocks=[model.stem, model.layer1, …]"
            ).format(type(model).__name__)
        )
    if len({id(part) for _, part in best}) < len(best):
        raise VramError(tr("the list of blocks contains a block twice; state blocks=[…], each module once"))
    return best


def named_blocks(model: Any, blocks: Any) -> list[tuple[str, Any]]:
    """Return the blocks that the caller chose, by name; None: the longest list."""
    if blocks is None:
        return blocks_of(model)
    names = {id(module): name for name, module in model.named_modules()}
    chosen = list(blocks)
    for block in chosen:
        if id(block) not in names:
            raise ValueError(
                tr("expected blocks to be modules of the model, got {} that is none of it").format(type(block).__name__)
            )
    if len({id(block) for block in chosen}) < len(chosen) or not chosen:
        raise ValueError(tr("expected blocks to be at least one module, each once, got {}").format(len(chosen)))
    for block in chosen:
        for part in block.modules():
            if part is not block and any(part is other for other in chosen):
                raise ValueError(
                    tr("expected blocks to follow each other, but {} is inside of {}").format(
                        names[id(part)], names[id(block)]
                    )
                )
    return [(names[id(block)], block) for block in chosen]


def device_of(model: Any) -> torch.device:
    """Return where the model is."""
    for tensor in (*model.parameters(), *model.buffers()):
        return torch.device(tensor.device)
    raise VramError(tr("{} has no parameters").format(type(model).__name__))


def called(model: Any, sample: Any) -> Any:
    """Call the model with a sample: positional arguments, a mapping of named ones, or one tensor."""
    if isinstance(sample, Mapping):
        return model(**sample)
    return model(*sample) if isinstance(sample, (list, tuple)) else model(sample)


def check_sample(sample: Any) -> None:
    """Raise TypeError: the sample is of another type than called() takes."""
    is_known = isinstance(sample, (torch.Tensor, list, tuple, Mapping))
    if not is_known or not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(_plain(sample))):
        raise TypeError(
            tr(
                "expected sample to be what the model is called with, a tensor, a tuple of arguments or "
                "a dict of named arguments, with at least one tensor, got {}"
            ).format(type(sample).__name__)
        )


def _plain(sample: Any) -> Any:
    return dict(sample) if isinstance(sample, Mapping) else sample


def _without_memory(tensor: Any) -> Any:
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda")
    return made.requires_grad_(tensor.requires_grad) if tensor.is_leaf else made


def fake_sample(sample: Any, device: torch.device) -> Any:
    """Return the sample on the pretended GPU; during a dry run. What is not where the model is stays as it is."""

    def fake(leaf: Any) -> Any:
        return _without_memory(leaf) if isinstance(leaf, torch.Tensor) and leaf.device == device else leaf

    return tree_map(fake, _plain(sample))


def fake_copy(model: Any, optimizer: Any) -> tuple[Any, Any]:
    """Return a copy of a model and its optimizer on the pretended GPU; during a dry run.

    Raises:
        VramError: The model cannot be copied.
    """
    memo: dict[int, Any] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        made = _without_memory(tensor)
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made.detach(), requires_grad=tensor.requires_grad)
        if tensor.grad is not None:
            made.grad = _without_memory(tensor.grad)
        memo[id(tensor)] = made
    if optimizer is not None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    memo[id(value)] = _without_memory(value)
    try:
        copied = copy.deepcopy((model, optimizer), memo)
    except Exception as error:
        raise VramError(
            tr("planning needs a copy of the model, and copy.deepcopy(model) failed: {}").format(error)
        ) from error
    return copied

"""Checkpoint regions on a live model.

    region [2 … 5], parts [2 … 3]      block 2   block 3   block 4   block 5
    forward                            └ enters both, 3 leaves the inner, 5 leaves the outer; only the input of block 2 is kept
    backward of block 5                runs 2 … 5 again: keeps what 4 and 5 need, and the input of 2 … 3
    backward of block 3                runs 2 … 3 again

A region is a frame of torch.utils.checkpoint without reentrant autograd: autograd keeps the graph of the first run, and what it saved
comes from the repetition. The model calls its blocks itself; a frame is suspended between them, and repeats the calls that were
made, with their arguments, random numbers and autocast. torch's determinism check compares both runs.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _NormBase
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from vram._error import VramError
from vram.planning._region import Region

_ATEN = torch.ops.aten
# What is dear to compute again: their results are kept by a region that keeps products.
_PRODUCTS = frozenset(
    getattr(_ATEN, name)
    for name in (
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "convolution",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
    if hasattr(_ATEN, name)
)


_HAS_EARLY_STOP = "early_stop" in inspect.signature(torch_checkpoint._checkpoint_without_reentrant_generator).parameters


def _policy(_context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> Any:
    is_product = getattr(operator, "_overloadpacket", None) in _PRODUCTS
    policy = torch_checkpoint.CheckpointPolicy
    return policy.MUST_SAVE if is_product else policy.PREFER_RECOMPUTE


class _InOrder:
    """Contexts that are entered in order, as often as wanted."""

    def __init__(self, *makers: Any) -> None:
        self._makers = makers

    def __enter__(self) -> None:
        self._stack = contextlib.ExitStack()
        for make in self._makers:
            self._stack.enter_context(make())

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)


@dataclass(frozen=True)
class _Previous:
    """The tensor of this number in the result of the call before."""

    number: int


@dataclass(frozen=True)
class _Input:
    """The tensor of this number among the inputs of the region."""

    number: int


def _resolve(reference: Any, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
    if isinstance(reference, _Previous):
        return previous[reference.number]
    return inputs[reference.number] if isinstance(reference, _Input) else reference


def _tensors(values: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class _Call:
    """A call of a block in a region, as it can be repeated."""

    def __init__(self, block: _Block, references: list[Any], spec: Any, random: Any) -> None:
        self.block, self._references, self._spec, self._random = block, references, spec, random

    def repeat(self, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
        args, kwargs = tree_unflatten([_resolve(each, inputs, previous) for each in self._references], self._spec)
        if self._random is not None:
            cpu, devices, states = self._random
            torch.set_rng_state(cpu)
            torch_checkpoint.set_device_states(devices, states, device_type="cuda")
        return self.block.forward(*args, **kwargs)


class _Open:
    """A region that a forward pass is in, or has left."""

    def __init__(self, region: Region, references: list[Any], inputs: list[Any]) -> None:
        self.region = region
        self.references = references  # of the inputs, in terms of the region around it
        self.inputs = [weakref.ref(each) for each in inputs]
        self.items: list[_Call | _Open] = []
        contexts = self._contexts if region.keeps_products else torch_checkpoint.noop_context_fn
        options = [True, contexts, "default", False, *([True] if _HAS_EARLY_STOP else [])]
        # checkpoint() in two halves: what runs between them is repeated.
        self._frame = torch_checkpoint._checkpoint_without_reentrant_generator(self.repeat, *options, *inputs)
        next(self._frame)

    def leave(self) -> None:
        with contextlib.suppress(StopIteration):
            next(self._frame)

    def abort(self) -> None:
        self._frame.close()

    def _contexts(self) -> tuple[Any, Any]:
        """The modes of torch's selective checkpointing, which must not see copies of statistics."""
        first, again = torch_checkpoint.create_selective_checkpoint_contexts(_policy)
        return first, _InOrder(lambda: self.items[0].block.unchanged_statistics(), lambda: again)

    def repeat(self, *inputs: Any) -> Any:
        previous: list[Any] = []
        result = None
        for item in self.items:
            if isinstance(item, _Call):
                with contextlib.nullcontext() if self.region.keeps_products else item.block.unchanged_statistics():
                    result = item.repeat(inputs, previous)
            else:
                given = [_resolve(each, inputs, previous) for each in item.references]
                result = torch_checkpoint.checkpoint(item.repeat, *given, use_reentrant=False)
            previous = _tensors(result)
        return result


class _Block:
    """A block whose forward goes through Regions."""

    def __init__(self, module: Any, number: int, regions: Regions) -> None:
        self.module, self.forward = module, module.forward
        self._had_own_forward = module.__dict__.get("forward")
        self._norms = [part for part in module.modules() if isinstance(part, _NormBase)]
        ours = {id(buffer) for part in self._norms for buffer in part._buffers.values()}
        self._others = [(name, b) for name, b in module.named_buffers() if b is not None and id(b) not in ours]
        module.forward = partial(regions.call, number)

    def remove(self) -> None:
        if self._had_own_forward is None:
            del self.module.forward
        else:
            self.module.forward = self._had_own_forward

    def versions(self) -> list[int]:
        return [buffer._version for _, buffer in self._others]

    def refuse_changes(self, before: list[int]) -> None:
        for (name, buffer), version in zip(self._others, before):
            if buffer._version != version:
                raise VramError(
                    f"{type(self.module).__name__} changes its buffer '{name}' in forward, so that running it again gives other values; "
                    "keep this block out of checkpointing: make the buffer the program's own, or use it in evaluation mode"
                )

    @contextlib.contextmanager
    def unchanged_statistics(self) -> Iterator[None]:
        """Running statistics change once per step: a repetition updates copies."""
        kept = [(norm, dict(norm._buffers)) for norm in self._norms if norm.training and norm.track_running_stats]
        for norm, buffers in kept:
            norm._buffers.update({name: None if b is None else b.clone() for name, b in buffers.items()})
        try:
            yield
        finally:
            for norm, buffers in kept:
                norm._buffers.update(buffers)


def _random_state(tensors: list[Any]) -> Any:
    if not torch.cuda.is_initialized():
        return torch.get_rng_state(), [], []
    return (torch.get_rng_state(), *torch_checkpoint.get_device_states(*tensors))


class Regions:
    """Runs the blocks of a model in regions, until remove()."""

    def __init__(self, model: Any, blocks: Sequence[Any], regions: Sequence[Region]) -> None:
        self._top = Region(0, len(blocks) - 1, parts=tuple(regions))
        self._open: list[_Open] = []
        self._between: saved_tensors_hooks | None = None  # while no block runs
        self._previous: list[Any] = []
        self._model, self._forward, self._own_forward = model, model.forward, model.__dict__.get("forward")
        covered = {i for region in regions for i in range(region.first, region.last + 1)}
        self._blocks = {i: _Block(blocks[i], i, self) for i in sorted(covered)}
        model.forward = self._call_model

    def remove(self) -> None:
        for block in self._blocks.values():
            block.remove()
        if self._own_forward is None:
            del self._model.forward
        else:
            self._model.forward = self._own_forward

    def _call_model(self, *args: Any, **kwargs: Any) -> Any:
        """A model may leave its blocks early, or by an exception."""
        try:
            result = self._forward(*args, **kwargs)
            self._leave(len(self._blocks) + self._top.last)
        finally:
            self._abort()
        return result

    def call(self, number: int, *args: Any, **kwargs: Any) -> Any:
        """The forward of a block."""
        block = self._blocks[number]
        self._resume()
        if not torch.is_grad_enabled():
            return block.forward(*args, **kwargs)
        try:
            self._leave(number)
            leaves, spec = tree_flatten((args, kwargs))
            self._enter(number, leaves)
            innermost = self._open[-1]
            is_first = len(self._open) == 1 and not innermost.items  # torch restores the random numbers of these
            random = None if is_first else _random_state(_tensors(leaves))
            call = _Call(block, [self._reference(leaf, innermost) for leaf in leaves], spec, random)
            versions = block.versions()
            result = block.forward(*args, **kwargs)
            block.refuse_changes(versions)
            innermost.items.append(call)
            self._previous = _tensors(result)
            self._leave(number + 1)
        except BaseException:
            self._abort()
            raise
        if self._open:
            self._suspend()
        return result

    def _enter(self, number: int, leaves: list[Any]) -> None:
        inside = self._open[-1].region if self._open else self._top
        while (region := inside.find(number)) is not None:
            around = self._open[-1] if self._open else None
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            references = [] if around is None else [self._reference(each, around) for each in inputs]
            opened = _Open(region, references, inputs)
            if around is not None:
                around.items.append(opened)
            self._open.append(opened)
            inside = region

    def _leave(self, number: int) -> None:
        """Leave the regions that do not contain this block."""
        self._resume()
        while self._open and not self._open[-1].region.first <= number <= self._open[-1].region.last:
            self._open.pop().leave()
        if not self._open:
            self._previous = []

    def _abort(self) -> None:
        self._resume()
        while self._open:
            self._open.pop().abort()
        self._previous = []

    def _suspend(self) -> None:
        """What the model does between blocks is not repeated, and its tensors are kept."""
        self._between = saved_tensors_hooks(lambda tensor: tensor.detach(), lambda tensor: tensor)
        self._between.__enter__()

    def _resume(self) -> None:
        if self._between is not None:
            self._between.__exit__(None, None, None)
            self._between = None

    def _reference(self, leaf: Any, inside: _Open) -> Any:
        """How a repetition of this region finds a value again. Others than these are kept as they are."""
        if isinstance(leaf, torch.Tensor):
            if inside.items:
                for number, tensor in enumerate(self._previous):
                    if tensor is leaf:
                        return _Previous(number)
            for number, reference in enumerate(inside.inputs):
                if reference() is leaf:
                    return _Input(number)
        return leaf

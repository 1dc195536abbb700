"""Checkpoint regions on a live model.

    region [2 … 5], parts [2 … 3]      block 2   block 3   block 4   block 5
    forward                            └ enters both, 3 leaves the inner, 5 leaves the outer; only the input of block 2 is kept
    backward of block 5                runs 2 … 5 again: keeps what 4 and 5 need, and the input of 2 … 3
    backward of block 3                runs 2 … 3 again

A region is a frame of torch.utils.checkpoint without reentrant autograd: autograd keeps the graph of the first run, and what it saved
comes from the repetition. The model calls its blocks itself; a frame is suspended between them, and repeats the calls that were
made, with their arguments, random numbers, autocast and training mode. torch's determinism check compares both runs; what a
repetition reads and autograd doesn't see is checked here: it must not have changed since the first run.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MethodType
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


class _Result:
    """A tensor that the call before returned: the next call may get it, or what the model has made of it in place."""

    def __init__(self, tensor: Any) -> None:
        self._tensor, self._state = tensor, (_version(tensor), tensor.requires_grad)

    def is_unchanged(self, tensor: Any) -> bool:
        return tensor is self._tensor and (_version(tensor), tensor.requires_grad) == self._state


@dataclass(frozen=True)
class _Input:
    """The tensor of this number among the inputs of the region."""

    number: int


def _resolve(reference: Any, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
    if isinstance(reference, _Previous):
        return previous[reference.number]
    return inputs[reference.number] if isinstance(reference, _Input) else reference.get()


def _tensors(values: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)


def _state(value: Any, depth: int = 3) -> Any:
    """What differs after a value was changed in place; None: it has no state that can be seen."""
    if isinstance(value, torch.Tensor):
        return _version(value)
    if isinstance(value, (type, MethodType, torch.nn.Module)) or not hasattr(value, "__dict__"):
        return None
    return [(id(leaf), _state(leaf, depth - 1)) for leaf in tree_leaves(dict(vars(value)))] if depth > 0 else None


class _Kept:
    """A value that a repetition gets as it is: an argument from between blocks, or one that is no tensor."""

    def __init__(self, value: Any, block: _Block) -> None:
        if isinstance(value, torch.Generator):
            raise VramError(
                f"{block.kind} takes a torch.Generator, and running it again would draw other numbers; keep this block out of checkpointing, "
                "or draw its numbers before the block"
            )
        # Without its graph, which would keep the region that it comes from, and so itself.
        is_part = isinstance(value, torch.Tensor) and not value.is_leaf
        self._value = value.detach().requires_grad_(value.requires_grad) if is_part else value
        self._kind, self._block_kind, self._state = type(value).__name__, block.kind, _state(value)

    def get(self) -> Any:
        self.refuse_changes()
        return self._value

    def refuse_changes(self) -> None:
        if _state(self._value) != self._state:
            raise VramError(
                f"an argument of {self._block_kind} is changed in place, which changes the {self._kind} that running the block again needs; keep "
                "this block out of checkpointing, or give it a copy"
            )


_REPEATING = (
    threading.RLock()
)  # modules and random numbers are set back for a repetition, and backward may have several threads


class _Call:
    """A call of a block in a region, as it can be repeated."""

    def __init__(self, block: _Block, references: list[Any], spec: Any, tensors: list[Any]) -> None:
        self.block, self._references, self._spec = block, references, spec
        self._random = _random_state([*tensors, *block.parameters])
        self._autocast = torch_checkpoint._get_autocast_kwargs("cuda")
        self._training = [part.training for part in block.parts]
        self._versions = block.versions(self._training)

    def refuse_changes(self) -> None:
        """After the first run: PyTorch checks tensors when they are needed, but not what is in other objects."""
        self.block.refuse_changes(self._versions, self._training, "in forward")
        for each in self._references:
            if isinstance(each, _Kept):
                each.refuse_changes()

    @contextlib.contextmanager
    def unchanged_statistics(self) -> Iterator[None]:
        """Running statistics change once per step: a repetition updates copies."""
        with _REPEATING:
            pairs = zip(self.block.parts, self._training, strict=True)
            kept = [(part, dict(part._buffers)) for part, mode in pairs if mode and _collects_statistics(part)]
            for norm, buffers in kept:
                norm._buffers.update({name: None if b is None else b.clone() for name, b in buffers.items()})
            try:
                yield
            finally:
                for norm, buffers in kept:
                    norm._buffers.update(buffers)

    def repeat(self, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
        self.block.refuse_changes(self._versions, self._training, "before the backward pass")
        args, kwargs = tree_unflatten([_resolve(each, inputs, previous) for each in self._references], self._spec)
        cpu, devices, states = self._random
        on_gpu, on_cpu = self._autocast
        with (
            _REPEATING,
            torch.random.fork_rng(devices=devices),
            torch.autocast("cuda", **on_gpu) if on_gpu is not None else contextlib.nullcontext(),
            torch.autocast("cpu", **on_cpu),
            self.block.in_mode(self._training),
        ):
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
        # Calls restore random numbers themselves.
        options: list[Any] = [False, contexts, "default", False, *([True] if _HAS_EARLY_STOP else [])]
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

        def unchanged() -> Any:
            (call,) = self.items
            assert isinstance(call, _Call)
            return call.unchanged_statistics()

        return first, _InOrder(unchanged, lambda: again)

    def repeat(self, *inputs: Any) -> Any:
        previous: list[Any] = []
        result = None
        for item in self.items:
            if isinstance(item, _Call):
                with contextlib.nullcontext() if self.region.keeps_products else item.unchanged_statistics():
                    result = item.repeat(inputs, previous)
            else:
                given = [_resolve(each, inputs, previous) for each in item.references]
                result = torch_checkpoint.checkpoint(item.repeat, *given, use_reentrant=False, preserve_rng_state=False)
            previous = _tensors(result)
        return result


class _Block:
    """A block whose forward goes through Regions."""

    def __init__(self, module: Any, number: int, regions: Regions) -> None:
        self.module = module
        self._own_forward = module.__dict__.get("forward")
        self.parts = list(module.modules())
        module.forward = partial(regions.call, number)

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def parameters(self) -> list[Any]:
        return list(self.module.parameters())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return _own_forward(self.module, self._own_forward)(*args, **kwargs)

    def remove(self) -> None:
        _restore_forward(self.module, self._own_forward)

    @contextlib.contextmanager
    def in_mode(self, training: list[bool]) -> Iterator[None]:
        now = [part.training for part in self.parts]
        self._set_mode(training)
        try:
            yield
        finally:
            self._set_mode(now)

    def _set_mode(self, training: list[bool]) -> None:
        for part, mode in zip(self.parts, training, strict=True):
            part.training = mode

    def versions(self, training: list[bool]) -> dict[tuple[str, int], tuple[int, int]]:
        """Of parameters and buffers, except the statistics that normalization collects in this mode."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for number, (part, is_training) in enumerate(zip(self.parts, training, strict=True)):
            collects = is_training and _collects_statistics(part)
            for what, tensors in (("parameter", part._parameters), ("buffer", {} if collects else part._buffers)):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        found[f"{what} '{name}'", number] = (id(tensor), _version(tensor))
        return found

    def refuse_changes(self, before: dict[tuple[str, int], tuple[int, int]], training: list[bool], when: str) -> None:
        for key, now in self.versions(training).items():
            was = before.get(key, now)
            is_swapped = now[0] != was[0] and key[0].startswith("parameter")  # FSDP2 has others between uses
            if now != was and not is_swapped:
                raise VramError(
                    f"the {key[0]} of a {self.kind} is changed in place {when}, or replaced, so that running this block again gives other "
                    "values; change it after the backward pass, or keep this block out of checkpointing"
                )


def _collects_statistics(module: Any) -> bool:
    return isinstance(module, _NormBase) and module.track_running_stats


def _own_forward(module: Any, own: Any) -> Any:
    """The forward of a module before it was replaced; `own`: the one that the instance had."""
    return MethodType(type(module).forward, module) if own is None else own


def _restore_forward(module: Any, own: Any) -> None:
    if own is None:
        del module.forward
    else:
        module.forward = own


def _random_state(tensors: list[Any]) -> Any:
    if not torch.cuda.is_initialized():
        return torch.get_rng_state(), [], []
    return (torch.get_rng_state(), *torch_checkpoint.get_device_states(*tensors))


@dataclass
class _Pass:
    """A forward pass of the model, in one thread."""

    open: list[_Open] = field(default_factory=list)
    between: saved_tensors_hooks | None = None  # while no block runs
    previous: list[_Result] = field(default_factory=list)

    def leave(self, number: int | None) -> None:
        """Leave the regions that do not contain this block; None: all."""
        self.resume()
        while self.open and (number is None or not self.open[-1].region.has(number)):
            self.open.pop().leave()
        if not self.open:
            self.previous = []

    def abort(self) -> None:
        self.resume()
        while self.open:
            self.open.pop().abort()

    def suspend(self) -> None:
        """What the model does between blocks is not repeated, and its tensors are kept."""
        if self.open:
            self.between = saved_tensors_hooks(lambda tensor: tensor.detach(), lambda tensor: tensor)
            self.between.__enter__()

    def resume(self) -> None:
        if self.between is not None:
            self.between.__exit__(None, None, None)
            self.between = None

    def reference(self, leaf: Any, inside: _Open, block: _Block) -> Any:
        """How a repetition of this region finds a value again."""
        if isinstance(leaf, torch.Tensor):
            if inside.items:
                for number, result in enumerate(self.previous):
                    if result.is_unchanged(leaf):
                        return _Previous(number)
            for number, reference in enumerate(inside.inputs):
                if reference() is leaf:
                    return _Input(number)
        return _Kept(leaf, block)


class Regions:
    """Runs the blocks of a model in regions, until remove()."""

    def __init__(self, model: Any, blocks: Sequence[Any], regions: Sequence[Region]) -> None:
        self._top = Region(0, len(blocks) - 1, parts=tuple(regions))
        self._passes: dict[int, _Pass] = {}  # by thread
        self._model, self._own_forward = model, model.__dict__.get("forward")
        covered = {i for region in regions for i in range(region.first, region.last + 1)}
        self._blocks = {i: _Block(blocks[i], i, self) for i in sorted(covered)}
        model.forward = self._call_model

    def remove(self) -> None:
        for block in self._blocks.values():
            block.remove()
        _restore_forward(self._model, self._own_forward)

    @contextlib.contextmanager
    def _new_pass(self) -> Iterator[_Pass]:
        """A model may leave its blocks early, or by an exception, or call itself."""
        thread = threading.get_ident()
        around = self._passes.get(thread)
        begun = self._passes[thread] = _Pass()
        try:
            yield begun
            begun.leave(None)
        finally:
            begun.abort()
            if around is None:
                del self._passes[thread]
            else:
                self._passes[thread] = around

    def _call_model(self, *args: Any, **kwargs: Any) -> Any:
        with self._new_pass():
            return _own_forward(self._model, self._own_forward)(*args, **kwargs)

    def call(self, number: int, *args: Any, **kwargs: Any) -> Any:
        """The forward of a block. One that is not called by the forward of the model is a region by itself."""
        block = self._blocks[number]
        if not torch.is_grad_enabled():
            return block.forward(*args, **kwargs)
        current = self._passes.get(threading.get_ident())
        if current is not None:
            return self._call(current, block, number, args, kwargs)
        with self._new_pass() as current:
            return self._call(current, block, number, args, kwargs)

    def _call(self, current: _Pass, block: _Block, number: int, args: Any, kwargs: Any) -> Any:
        try:
            current.leave(number)
            leaves, spec = tree_flatten((args, kwargs))
            self._enter(current, block, number, leaves)
            innermost = current.open[-1]
            references = [current.reference(leaf, innermost, block) for leaf in leaves]
            call = _Call(block, references, spec, _tensors(leaves))
            result = block.forward(*args, **kwargs)
            call.refuse_changes()
            innermost.items.append(call)
            current.previous = [_Result(tensor) for tensor in _tensors(result)]
            current.leave(number + 1)
        except BaseException:
            current.abort()
            raise
        current.suspend()
        return result

    def _enter(self, current: _Pass, block: _Block, number: int, leaves: list[Any]) -> None:
        inside = current.open[-1].region if current.open else self._top
        while (region := inside.find(number)) is not None:
            around = current.open[-1] if current.open else None
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            references = [] if around is None else [current.reference(each, around, block) for each in inputs]
            opened = _Open(region, references, inputs)
            if around is not None:
                around.items.append(opened)
            current.open.append(opened)
            inside = region

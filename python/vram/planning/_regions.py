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
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._pytree import tree_flatten

from vram._error import VramError
from vram._texts import tr
from vram.planning._calls import (
    Block,
    Call,
    Input,
    Previous,
    Result,
    is_sharded,
    own_forward,
    resolve,
    restore_forward,
)
from vram.planning._kept import Kept, tensors_in
from vram.planning._region import CheckpointRegion

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


class _Count:
    """How many operators went through the modes of torch's selective checkpointing."""

    def __init__(self) -> None:
        self.operators = 0


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


class _Open:
    """A region that a forward pass is in, or has left."""

    def __init__(self, region: CheckpointRegion, references: list[Any], inputs: list[Any], count: _Count) -> None:
        self.region, self._count = region, count
        self.references = references  # of the inputs, in terms of the region around it
        self.inputs = [weakref.ref(each) for each in inputs]
        self.items: list[Call | _Open] = []
        self._has_ended = False
        self._failure = ""  # what ended the forward pass within the region
        contexts = self._contexts if region.keeps_products else torch_checkpoint.noop_context_fn
        # Calls restore random numbers themselves.
        options: list[Any] = [False, contexts, "default", False, *([True] if _HAS_EARLY_STOP else [])]
        # checkpoint() in two halves: what runs between them is repeated.
        self._frame = torch_checkpoint._checkpoint_without_reentrant_generator(self.repeat, *options, *inputs)
        next(self._frame)

    def leave(self) -> None:
        self._has_ended = True
        with contextlib.suppress(StopIteration):
            next(self._frame)

    def abort(self, error: BaseException) -> None:
        self._failure = type(error).__name__
        self._frame.close()

    def _contexts(self) -> tuple[Any, Any]:
        """The modes of torch's selective checkpointing, which must not see copies of statistics."""
        policy, count, operators = torch_checkpoint.CheckpointPolicy, self._count, 0

        def choose(context: Any, operator: Any, *_args: Any, **_kwargs: Any) -> Any:
            nonlocal operators
            if not context.is_recompute:  # newer versions of torch don't ask again
                operators += 1
                count.operators += 1
            is_product = getattr(operator, "_overloadpacket", None) in _PRODUCTS
            return policy.MUST_SAVE if is_product else policy.PREFER_RECOMPUTE

        first, again = torch_checkpoint.create_selective_checkpoint_contexts(choose)

        def unchanged() -> Any:
            self._refuse_incomplete()
            (call,) = self.items
            assert isinstance(call, Call)
            count.operators += operators
            return call.unchanged_statistics()

        return first, _InOrder(unchanged, lambda: again)

    def _refuse_incomplete(self) -> None:
        if self._failure:
            raise VramError(
                tr(
                    "the forward pass of a region of several blocks ended by an exception ({}), and the model continued: "
                    "the blocks before cannot run again; keep the block that raises out of checkpointing, or plan with "
                    "single_blocks=True"
                ).format(self._failure)
            )
        if not self._has_ended:
            raise VramError(
                tr(
                    "gradients are computed (torch.autograd.grad, backward) while the blocks are still in "
                    "their forward pass, which cannot run again before it has ended; keep the blocks that do "
                    "so, or between which it happens, out of checkpointing"
                )
            )

    def repeat(self, *inputs: Any) -> Any:
        self._refuse_incomplete()
        previous: list[Any] = []
        result = None
        for item in self.items:
            if isinstance(item, Call):
                with contextlib.nullcontext() if self.region.keeps_products else item.unchanged_statistics():
                    result = item.repeat(inputs, previous)
            else:
                given = [resolve(each, inputs, previous) for each in item.references]
                result = torch_checkpoint.checkpoint(item.repeat, *given, use_reentrant=False, preserve_rng_state=False)
            previous = tensors_in(result)
        return result


def _is_innermost(hooks: saved_tensors_hooks) -> bool:
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return top is not None and top[0] is hooks.pack_hook


@dataclass
class _Pass:
    """A forward pass of the model, in one thread."""

    open: list[_Open] = field(default_factory=list)
    between: saved_tensors_hooks | None = None  # while no block runs
    previous: list[Result] = field(default_factory=list)

    def leave(self, number: int | None) -> None:
        """Leave the regions that do not contain this block; None: all.

        Raises:
            VramError: The hooks of a region would not end in the order in which they began.
        """
        if self.between is not None and not _is_innermost(self.between):
            raise VramError(
                tr(
                    "the model begins or ends hooks of saved tensors between the blocks of a region "
                    "(torch.utils.checkpoint around a block, save_on_cpu, saved_tensors_hooks), which "
                    "regions of several blocks do not allow; plan with single_blocks=True"
                )
            )
        self.resume()
        while self.open and (number is None or not self.open[-1].region.has(number)):
            self.open.pop().leave()
        if not self.open:
            self.previous = []

    def abort(self, error: BaseException) -> None:
        self.resume()
        while self.open:
            self.open.pop().abort(error)

    def suspend(self) -> None:
        """What the model does between blocks is not repeated, and its tensors are kept."""
        if self.open:
            self.between = saved_tensors_hooks(lambda tensor: tensor.detach(), lambda tensor: tensor)
            self.between.__enter__()

    def resume(self) -> None:
        if self.between is not None:
            self.between.__exit__(None, None, None)
            self.between = None

    def reference(self, leaf: Any, inside: _Open, block: Block) -> Any:
        """How a repetition of this region finds a value again."""
        if isinstance(leaf, torch.Tensor):
            if inside.items:
                for number, result in enumerate(self.previous):
                    if result.is_unchanged(leaf):
                        return Previous(number)
            for number, reference in enumerate(inside.inputs):
                if reference() is leaf:
                    return Input(number)
        return Kept(leaf, block)


class Regions:
    """Runs the blocks of a model in regions, until remove()."""

    def __init__(self, model: Any, blocks: Sequence[Any], regions: Sequence[CheckpointRegion]) -> None:
        self._top = CheckpointRegion(0, len(blocks) - 1, parts=tuple(regions))
        self._passes: dict[int, _Pass] = {}  # by thread
        self._count = _Count()
        self._is_removed = False
        self._model, self._own_forward = model, model.__dict__.get("forward")
        covered = {i for region in regions for i in range(region.first, region.last + 1)}
        sharded = is_sharded(model)
        self._blocks = {i: Block(blocks[i], partial(self.call, i), sharded) for i in sorted(covered)}
        model.forward = self._call_model

    @property
    def selective_operators(self) -> int:
        """How many operators ran in regions that keep products, in forward passes and again: each costs the host time."""
        return self._count.operators

    def remove(self) -> None:
        self._is_removed = True  # what has replaced a forward since may still call these
        for block in self._blocks.values():
            block.remove()
        restore_forward(self._model, self._call_model, self._own_forward)

    @contextlib.contextmanager
    def _new_pass(self) -> Iterator[_Pass]:
        """A model may leave its blocks early, or by an exception, or call itself."""
        thread = threading.get_ident()
        around = self._passes.get(thread)
        begun = self._passes[thread] = _Pass()
        try:
            yield begun
            begun.leave(None)
        except BaseException as error:
            begun.abort(error)
            raise
        finally:
            if around is None:
                del self._passes[thread]
            else:
                self._passes[thread] = around

    def _call_model(self, *args: Any, **kwargs: Any) -> Any:
        with self._new_pass():
            return own_forward(self._model, self._own_forward)(*args, **kwargs)

    def call(self, number: int, *args: Any, **kwargs: Any) -> Any:
        """The forward of a block. One that is not called by the forward of the model is a region by itself."""
        block = self._blocks[number]
        if self._is_removed or not torch.is_grad_enabled():
            return block.forward(*args, **kwargs)
        current = self._passes.get(threading.get_ident())
        if current is not None:
            return self._call(current, block, number, args, kwargs)
        with self._new_pass() as current:
            return self._call(current, block, number, args, kwargs)

    def _call(self, current: _Pass, block: Block, number: int, args: Any, kwargs: Any) -> Any:
        try:
            current.leave(number)
            leaves, spec = tree_flatten((args, kwargs))
            self._enter(current, block, number, leaves)
            innermost = current.open[-1]
            references = [current.reference(leaf, innermost, block) for leaf in leaves]
            call = Call(block, references, spec, tensors_in(leaves))
            result = block.forward(*args, **kwargs)
            call.refuse_changes()
            innermost.items.append(call)
            current.previous = [Result(tensor) for tensor in tensors_in(result)]
            current.leave(number + 1)
        except BaseException as error:
            current.abort(error)
            raise
        current.suspend()
        return result

    def _enter(self, current: _Pass, block: Block, number: int, leaves: list[Any]) -> None:
        inside = current.open[-1].region if current.open else self._top
        while (region := inside.find(number)) is not None:
            around = current.open[-1] if current.open else None
            inputs = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            references = [] if around is None else [current.reference(each, around, block) for each in inputs]
            opened = _Open(region, references, inputs, self._count)
            if around is not None:
                around.items.append(opened)
            current.open.append(opened)
            inside = region

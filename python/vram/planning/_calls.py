"""Calls of blocks, as they can be repeated: with the same arguments, random numbers, autocast and training mode.

What a repetition reads must not have changed since the first run. PyTorch checks what autograd saved; this module checks the rest.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.utils import checkpoint as torch_checkpoint
from torch.utils._pytree import tree_unflatten

from vram._error import VramError
from vram._texts import tr
from vram.planning._attributes import Attributes
from vram.planning._kept import Kept, version


@dataclass(frozen=True)
class Previous:
    """The tensor of this number in the result of the call before."""

    number: int


class Result:
    """A tensor that the call before returned: the next call may get it, or what the model has made of it in place."""

    def __init__(self, tensor: Any) -> None:
        self._tensor, self._state = tensor, (version(tensor), tensor.requires_grad)

    def is_unchanged(self, tensor: Any) -> bool:
        return tensor is self._tensor and (version(tensor), tensor.requires_grad) == self._state


@dataclass(frozen=True)
class Input:
    """The tensor of this number among the inputs of the region."""

    number: int


def resolve(reference: Any, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
    if isinstance(reference, Previous):
        return previous[reference.number]
    return inputs[reference.number] if isinstance(reference, Input) else reference.get()


_REPEATING = (
    threading.RLock()
)  # modules and random numbers are set back for a repetition, and backward may have several threads


class Call:
    """A call of a block in a region, as it can be repeated."""

    def __init__(self, block: Block, references: list[Any], spec: Any, tensors: list[Any]) -> None:
        self.block, self._references, self._spec = block, references, spec
        self._random = _random_state([*tensors, *block.parameters])
        self._autocast = torch_checkpoint._get_autocast_kwargs("cuda")
        self._training = [part.training for part in block.parts]
        self._versions = block.versions(self._training)
        self._attributes = Attributes(block.parts)

    def refuse_changes(self) -> None:
        """After the first run: PyTorch checks tensors when they are needed, but not what is in other objects."""
        self.block.refuse_changes(self._versions, self._training, tr("in forward"))
        self._attributes.refuse_changes(tr("in forward"))
        for each in self._references:
            if isinstance(each, Kept):
                each.refuse_changes()

    @contextlib.contextmanager
    def unchanged_statistics(self) -> Iterator[None]:
        """Running statistics change once per step: a repetition updates copies."""
        with _REPEATING:
            pairs = zip(self.block.parts, self._training)
            kept = [(part, dict(part._buffers)) for part, mode in pairs if mode and _collects_statistics(part)]
            for norm, buffers in kept:
                norm._buffers.update({name: None if b is None else b.clone() for name, b in buffers.items()})
            try:
                yield
            finally:
                for norm, buffers in kept:
                    norm._buffers.update(buffers)

    def repeat(self, inputs: Sequence[Any], previous: Sequence[Any]) -> Any:
        self.block.refuse_changes(self._versions, self._training, tr("before the backward pass"))
        self._attributes.refuse_changes(tr("before the backward pass"))
        args, kwargs = tree_unflatten([resolve(each, inputs, previous) for each in self._references], self._spec)
        cpu, devices, states = self._random
        on_gpu, on_cpu = self._autocast
        with (
            _REPEATING,
            torch.random.fork_rng(devices=devices),
            torch.autocast("cuda", **on_gpu) if on_gpu is not None else contextlib.nullcontext(),
            torch.autocast("cpu", **on_cpu),
            self.block.in_mode(self._training),
            self._attributes.as_before(),
        ):
            torch.set_rng_state(cpu)
            torch_checkpoint.set_device_states(devices, states, device_type="cuda")
            return self.block.forward(*args, **kwargs)


class Block:
    """A block whose forward goes through Regions.

    Args:
        forward: The forward that it gets.
        is_sharded: Whether it is a part of a model of FSDP2, which replaces parameters between uses.
    """

    def __init__(self, module: Any, forward: Callable[..., Any], is_sharded: bool) -> None:
        self.module, self._is_sharded = module, is_sharded
        self._own_forward = module.__dict__.get("forward")
        self.parts = list(module.modules())
        self._forward = module.forward = forward

    @property
    def kind(self) -> str:
        return type(self.module).__name__

    @property
    def parameters(self) -> list[Any]:
        return list(self.module.parameters())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return own_forward(self.module, self._own_forward)(*args, **kwargs)

    def remove(self) -> None:
        restore_forward(self.module, self._forward, self._own_forward)

    @contextlib.contextmanager
    def in_mode(self, training: list[bool]) -> Iterator[None]:
        now = [part.training for part in self.parts]
        self._set_mode(training)
        try:
            yield
        finally:
            self._set_mode(now)

    def _set_mode(self, training: list[bool]) -> None:
        for part, mode in zip(self.parts, training):
            part.training = mode

    def versions(self, training: list[bool]) -> dict[tuple[str, int], tuple[int, int]]:
        """Of parameters and buffers, except the statistics that normalization collects in this mode."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for number, (part, is_training) in enumerate(zip(self.parts, training)):
            collects = is_training and _collects_statistics(part)
            for what, tensors in (("parameter", part._parameters), ("buffer", {} if collects else part._buffers)):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        found[f"{what} '{name}'", number] = (id(tensor), version(tensor))
        return found

    def refuse_changes(self, before: dict[tuple[str, int], tuple[int, int]], training: list[bool], when: str) -> None:
        for key, now in self.versions(training).items():
            was = before.get(key, now)
            is_swapped = self._is_sharded and now[0] != was[0] and key[0].startswith("parameter")
            if now != was and not is_swapped:
                raise VramError(
                    tr(
                        "the {} of a {} is changed in place {}, or replaced (as torch.func.functional_call() "
                        "does), so that running this block again gives other values; change it after the "
                        "backward pass, or keep this block out of checkpointing"
                    ).format(key[0], self.kind, when)
                )


def _collects_statistics(module: Any) -> bool:
    return isinstance(module, _NormBase) and module.track_running_stats


def is_sharded(model: Any) -> bool:
    """Whether fully_shard() was applied to a part of the model."""
    return any(base.__name__ == "FSDPModule" for module in model.modules() for base in type(module).__mro__)


def own_forward(module: Any, own: Any) -> Any:
    """The forward of a module before it was replaced; `own`: the one that the instance had."""
    return MethodType(type(module).forward, module) if own is None else own


def restore_forward(module: Any, replaced: Any, own: Any) -> None:
    """Undo what replaced the forward of a module, unless something else has replaced it since: that would be lost."""
    now = module.__dict__.get("forward")
    is_ours = now == replaced or (  # of a copied model, the parts of a partial are the same and it is not
        isinstance(now, partial)
        and isinstance(replaced, partial)
        and (now.func, now.args) == (replaced.func, replaced.args)
    )
    if not is_ours:
        return
    if own is None:
        del module.forward
    else:
        module.forward = own


def _random_state(tensors: list[Any]) -> Any:
    if not torch.cuda.is_initialized():
        return torch.get_rng_state(), [], []
    return (torch.get_rng_state(), *torch_checkpoint.get_device_states(*tensors))

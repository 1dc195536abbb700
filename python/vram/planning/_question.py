"""What a plan is made for: a model, its sample and its loss, under the autocast in which it trains."""

# mypy: allow-untyped-calls

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from vram._error import VramError
from vram._texts import tr


@dataclass(frozen=True)
class Question:
    """What a plan is made for."""

    model: Any
    sample: Any
    optimizer: Any
    loss: Callable[[Any], Any]
    names: list[str]
    accumulates: bool
    is_single: bool

    def forward(self, model: Any, sample: Any, autocast: Callable[[], contextlib.AbstractContextManager[Any]]) -> Any:
        """Return the loss of a forward pass of this model, or of its copy."""
        from vram.planning._model import called

        with autocast():
            return self.loss(called(model, sample))


def question_of(
    model: Any,
    sample: Any,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Any = None,
    blocks: Iterable[Any] | None = None,
    accumulates: bool = False,
    single_blocks: bool = False,
) -> tuple[Question, Any]:
    """Return what plan_checkpoints() was called with, and the device of the model.

    Raises:
        TypeError, ValueError, VramError: As in plan_checkpoints().
    """
    from vram.planning._model import check_sample, device_of, named_blocks, unwrapped

    model = unwrapped(model)
    check_sample(sample)
    names = [name for name, _ in named_blocks(model, blocks)]
    return Question(model, sample, optimizer, loss or loss_of, names, accumulates, single_blocks), device_of(model)


def loss_of(output: Any) -> Any:
    """Return the loss in what a model returned, or the sum of its results."""
    from vram.planning._kept import tensors_in

    found = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if found is not None:
        return found
    wanted = [t for t in tensors_in(output) if t.requires_grad and t.is_floating_point()]
    if not wanted:
        raise VramError(
            tr("no result of the model requires a gradient; state loss=, a function of what the model returns")
        )
    return sum(t.sum() for t in wanted)


def autocast_of(device: Any, kind: str) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    """Return what enters, for devices of this kind, the autocast that the model's device has now."""
    import torch

    if not (torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)):
        return contextlib.nullcontext
    return partial(
        torch.autocast, kind, torch.get_autocast_dtype(device.type), cache_enabled=torch.is_autocast_cache_enabled()
    )


@contextlib.contextmanager
def outside_autocast(device: Any) -> Iterator[None]:
    """Leave all autocast contexts, as a training step does before its backward pass: that empties the cache of cast parameters."""
    import torch

    torch.clear_autocast_cache()
    depth = torch.autocast_increment_nesting()
    for _ in range(depth):
        torch.autocast_decrement_nesting()
    kinds = [kind for kind in {"cuda", device.type} if torch.amp.is_autocast_available(kind)]
    enabled = {kind: torch.is_autocast_enabled(kind) for kind in kinds}
    for kind in kinds:
        torch.set_autocast_enabled(kind, False)
    try:
        yield
    finally:
        for kind in kinds:
            torch.set_autocast_enabled(kind, enabled[kind])
        for _ in range(depth - 1):
            torch.autocast_increment_nesting()


def gpu_here() -> str:
    """Return the GPU of this machine, as dry_run() takes it."""
    import torch

    from vram.dry._gpu import find_gpu

    if not torch.cuda.is_available():
        return "H200"
    name = torch.cuda.get_device_name()
    with contextlib.suppress(ValueError):
        return find_gpu(name).name
    return f"{torch.cuda.get_device_properties(0).total_memory}B"

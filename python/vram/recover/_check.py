"""A trial of whether a step's gradients are those of the full batch when it is split: on a few samples, before it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vram._error import VramError
from vram.recover._gradients import Gradients

SAMPLES = 4
_RELATIVE = {"torch.float64": 1e-6, "torch.float32": 1e-3}  # of other types, which are coarser:
_RELATIVE_COARSE = 5e-2


def check_split(run: Callable[[int], object], gradients: Gradients, models: list[Any]) -> None:
    """`run(size)` leaves the gradients of a few samples, in micro-batches of that size. VramError: they differ.

    Modules are in eval mode meanwhile: dropout would differ anyway.
    """
    with _evaluating(models):
        run(SAMPLES)
        whole = gradients.taken()
        run(SAMPLES // 2)
        split = gradients.taken()
    for one, other in zip(whole, split):
        if one is None and other is None:
            continue
        difference = 1.0 if one is None or other is None else _relative(one, other)
        allowed = 0.0 if one is None else _RELATIVE.get(str(one.dtype), _RELATIVE_COARSE)
        if not difference <= allowed:
            raise VramError(
                f"split in two, a batch of {SAMPLES} samples gives gradients that differ by {difference:.1e} (relative; "
                f"{allowed:.0e} is allowed): the loss compares samples (contrastive losses, in-batch negatives), or its "
                "mean is over something else than samples (pass weight=, tokens say, or reduction='sum')"
            )


def _relative(one: Any, other: Any) -> float:
    return float((one - other).norm()) / max(float(one.norm()), 1e-30)


@contextmanager
def _evaluating(models: list[Any]) -> Iterator[None]:
    training = [module for model in models for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True

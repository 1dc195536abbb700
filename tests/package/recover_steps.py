"""Training steps of many kinds, each a small function in recover_steps_*.py. test_recover_steps.py runs them whole, split
and with failures.

`@step()` marks a step whose split gradients must equal the whole batch's; `@step(REFUSED)` one that cannot be split
with equal gradients; `@step(DRAWS)` one with random numbers, whose gradients equal those of a run that began with the
final size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from torch import Tensor, nn

SAMPLES = 6
EQUAL, REFUSED, DRAWS = "equal", "refused", "draws"


@dataclasses.dataclass
class Training:
    """What a step trains, and how vram.micro_batches is called."""

    model: Any
    batch: Any
    step: Callable[[Any], Tensor]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    others: list[Tensor] = dataclasses.field(default_factory=list)  # that get gradients, and are not in the model

    def modules(self) -> list[nn.Module]:
        return list(self.model) if isinstance(self.model, list) else [self.model]

    def trained(self) -> list[Tensor]:
        found = {id(p): p for module in self.modules() for p in module.parameters()}
        return [*found.values(), *self.others]

    def buffers(self) -> list[Tensor]:
        return [buffer for module in self.modules() for buffer in module.buffers()]


@dataclasses.dataclass(frozen=True)
class Kind:
    make: Callable[[], Training]
    expected: str
    within: float  # relative, of all gradients together


STEPS: dict[str, Kind] = {}


def step(expected: str = EQUAL, within: float = 1e-6) -> Callable[[Callable[[], Training]], Callable[[], Training]]:
    def add(make: Callable[[], Training]) -> Callable[[], Training]:
        STEPS[make.__name__] = Kind(make, expected, within)
        return make

    return add


def mlp(*more: nn.Module, out: int = 3) -> Any:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), *more, nn.Linear(5, out))


def xy(samples: int = SAMPLES, out: int = 3) -> dict[str, Tensor]:
    return {"x": torch.randn(samples, 4), "y": torch.randn(samples, out)}


def labelled(classes: int = 3) -> dict[str, Tensor]:
    return {"x": torch.randn(SAMPLES, 4), "y": torch.randint(0, classes, (SAMPLES,))}


def tokens() -> dict[str, Tensor]:
    labels = torch.randint(0, 3, (SAMPLES, 5))
    for row, length in enumerate((5, 5, 5, 2, 1, 4)):  # the first rows are equally long
        labels[row, length:] = -100
    return {"x": torch.randn(SAMPLES, 5, 4), "y": labels}


def of(loss: Callable[..., Tensor], model: Any = None, batch: Any = None, **options: Any) -> Training:
    """A loss of outputs and targets."""
    model = model or mlp()
    return Training(model, xy() if batch is None else batch, lambda part: loss(model(part["x"]), part["y"]), options)


def square(out: Tensor, y: Tensor) -> Tensor:
    return (out - y).square().mean()


def token_loss(out: Tensor, y: Tensor, **more: Any) -> Tensor:
    return F.cross_entropy(out.flatten(0, 1), y.flatten(), **more)


def images(norm: nn.Module) -> Training:
    model = nn.Sequential(nn.Conv2d(2, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    return of(F.mse_loss, model, {"x": torch.randn(SAMPLES, 2, 5, 5), "y": torch.randn(SAMPLES, 3)})

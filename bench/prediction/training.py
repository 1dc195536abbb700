"""What the training programs of this folder share: precision, device, optimizers, and the step itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Step = Callable[[], Tensor]
Inputs = tuple[Tensor, ...]
T = TypeVar("T")
Kind = str | Callable[[list[nn.Parameter]], torch.optim.Optimizer]

# fp16 runs under autocast with a GradScaler; bf16 has weights, gradients and optimizer states in bfloat16.
PRECISIONS = ("fp32", "bf16_autocast", "bf16", "fp16")
AUTOCAST = {"bf16_autocast": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Setup:
    """How to build a program. `tiny` makes models that a CPU trains in a second; only checks of the programs use it."""

    batch: int
    precision: str = "fp32"
    device: str = "cuda"
    tiny: bool = False

    def pick(self, normal: T, tiny: T) -> T:
        return tiny if self.tiny else normal

    @property
    def dtype(self) -> torch.dtype:
        """Of weights, and of inputs that are real numbers."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32

    def place(self, model: nn.Module) -> nn.Module:
        return model.to(device=self.device, dtype=self.dtype).train()

    def real(self, *shape: int) -> Tensor:
        return torch.randn(*shape, device=self.device, dtype=self.dtype)

    def whole(self, high: int, *shape: int) -> Tensor:
        return torch.randint(0, high, shape, device=self.device)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.precision not in AUTOCAST:
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, AUTOCAST[self.precision])


def optimizer(kind: Kind, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Returns an optimizer by name, or what a function makes; a suffix chooses PyTorch's implementation (`adamw_fused`, `adam_loop`)."""
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    if not isinstance(kind, str):
        return kind(wanted)
    name, _, way = kind.partition("_")
    ways: dict[str, dict[str, bool]] = {
        "": {},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
        "loop": {"foreach": False},
    }
    if name == "sgd":
        return torch.optim.SGD(wanted, 1e-3, momentum=0.9, weight_decay=1e-4, **ways[way])
    if name == "plainsgd":
        return torch.optim.SGD(wanted, 1e-3, **ways[way])
    kinds: dict[str, Any] = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "adafactor": torch.optim.Adafactor,
        "adagrad": torch.optim.Adagrad,
        "rmsprop": torch.optim.RMSprop,
    }
    return kinds[name](wanted, 1e-4, **ways[way])


def train(
    setup: Setup,
    model: nn.Module,
    make: Callable[[], Inputs],
    loss_of: Callable[..., Tensor],
    kind: Kind,
    *,
    max_norm: float = 0.0,
    accumulate: int = 1,
) -> Step:
    """Returns the step of an ordinary training loop.

    Args:
        make: returns one batch on the device.
        loss_of: called with the model and the batch, under autocast if the precision wants it.
        kind: the optimizer, see `optimizer`.
        max_norm: of gradients, 0: they are not clipped.
        accumulate: backward passes for each step of the optimizer.
    """
    steps = optimizer(kind, model.parameters())
    # A small scale: no step is skipped, so the states of the optimizer exist from the first step on.
    scaler = (
        torch.amp.GradScaler(torch.device(setup.device).type, init_scale=128.0) if setup.precision == "fp16" else None
    )

    def step() -> Tensor:
        for _ in range(accumulate):
            batch = make()
            with setup.autocast():
                loss = loss_of(model, *batch)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(steps)
        if max_norm:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        if scaler:
            scaler.step(steps)
            scaler.update()
        else:
            steps.step()
        steps.zero_grad(set_to_none=True)
        return loss.detach()

    return step

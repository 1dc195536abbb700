"""Other optimizers in the place of a program's own, as if it had made them instead."""

# mypy: allow-untyped-calls

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.optim import Optimizer

from vram.dry._patches import Patches

# bitsandbytes: states of 8 bits with one number per block of values; parameters with fewer elements keep 32 bits.
_BLOCK, _MIN_8BIT_ELEMENTS = 256, 4096


class _AdamW8bit(Optimizer):
    """The states of bitsandbytes.optim.AdamW8bit. Its kernels update parameters in place and allocate nothing."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        for parameter in (p for group in self.param_groups for p in group["params"]):
            state = self.state[parameter]
            if parameter.grad is not None and not state:
                is_small = parameter.numel() < _MIN_8BIT_ELEMENTS
                for name in ("state1", "state2"):
                    state[name] = torch.zeros_like(parameter, dtype=torch.float32 if is_small else torch.uint8)
                    if not is_small:
                        blocks = -(-parameter.numel() // _BLOCK)
                        state[name.replace("state", "absmax")] = torch.zeros(blocks, device=parameter.device)
        return loss


CLASSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {}),
    "adafactor": (torch.optim.Adafactor, {}),
    "adamw-8bit": (_AdamW8bit, {}),
}


def _plain_new(wanted: Any, *_args: Any, **_kwargs: Any) -> Any:
    """As without __new__. Python does not forget that a class once had one: deleting it would leave object.__new__() without arguments."""
    return object.__new__(wanted)


def replace(name: str, patches: Patches) -> list[Any]:
    """Make each new optimizer one of this kind, with the program's parameters and learning rate. Returns those made, later.

    Args:
        name: The kind.
        patches: Of the changed program.
    """
    kind, options = CLASSES[name]
    made: list[Any] = []

    def init(_optimizer: Any, *_args: Any, **_kwargs: Any) -> None:
        """Python calls it once more with the program's arguments if it takes the result for what it asked for."""

    take_step = inspect.unwrap(kind.step)

    @torch.no_grad()
    def step(optimizer: Any, closure: Any = None) -> Any:
        return take_step(optimizer, closure)

    stand_in = type(kind.__name__, (kind,), {"__init__": init, "step": step})

    def new(wanted: Any, params: Any = None, *args: Any, lr: Any = None, **_others: Any) -> Any:
        if wanted is stand_in or params is None or isinstance(params, Optimizer):  # a copy, or one around another
            return object.__new__(wanted)
        rate = lr if lr is not None else args[0] if args and isinstance(args[0], (int, float)) else 1e-3
        optimizer: Any = object.__new__(stand_in)
        kind.__init__(optimizer, params, lr=rate, **options)
        made.append(optimizer)
        return optimizer

    Optimizer.__new__ = staticmethod(_plain_new)  # type: ignore[assignment]
    patches.put(Optimizer, "__new__", staticmethod(new))
    return made

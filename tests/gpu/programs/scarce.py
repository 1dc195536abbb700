"""What the programs that run out of memory share: a model, what it needs, and limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

import vram

SAMPLES = 128
_WIDTH, _SPREAD, _LAYERS = 128, 8192, 4


class Net(nn.Module):
    """For each sample and layer 4 MiB, for all parameters 264 KiB: a limit on memory is one on the batch. Sums over samples
    are short, so that rounding stays far below what gradients may differ by."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH) for _ in range(_LAYERS))
        self.dropout = nn.Dropout(dropout)
        self.scales: Tensor
        self.register_buffer("scales", torch.linspace(0.5, 1.5, _SPREAD))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.dropout(torch.tanh(layer(x)[..., None] * self.scales)).mean(-1)
        return x


def make_batch(samples: int = SAMPLES) -> dict[str, Tensor]:
    return {name: torch.randn(samples, _WIDTH, device="cuda") for name in ("x", "y")}


def loss_of(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return nn.functional.mse_loss(model(batch["x"]), batch["y"])


def train(model: nn.Module, batch: dict[str, Tensor], samples: int = SAMPLES) -> None:
    """Forward and backward of so many samples at once."""
    model.zero_grad()
    loss_of(model, {name: tensor[:samples] for name, tensor in batch.items()}).backward()  # type: ignore[no-untyped-call]


def gradients(model: nn.Module) -> Tensor:
    """A copy of all of them, in one piece."""
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def difference(one: Tensor, other: Tensor) -> float:
    """Relative, by the norm."""
    return float((one.double() - other.double()).norm() / other.double().norm())


def in_tensors() -> int:
    """Bytes that are asked for and not freed."""
    return int(torch.cuda.memory_stats()["requested_bytes.all.current"])


def peak_of(call: Callable[[], object]) -> int:
    """What the allocator holds at most meanwhile, in bytes."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_reserved()


def too_little_for(call: Callable[[int], object]) -> int:
    """Bytes: half way between what it needs for an eighth of the samples and for all of them. The sizes between are run
    too, so that libraries have all that they keep."""
    for samples in (SAMPLES, SAMPLES // 2, SAMPLES // 4):
        call(samples)
    eighth, whole = peak_of(lambda: call(SAMPLES // 8)), peak_of(lambda: call(SAMPLES))
    return (eighth + whole) // 2


@contextmanager
def limited(limit_bytes: int) -> Iterator[None]:
    """Within it the process holds no more of the current device."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(limit_bytes / torch.cuda.mem_get_info()[1])
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def begin() -> None:
    """As the first word says: vram's pool, or PyTorch's own allocator."""
    if sys.argv[1] == "pool":
        vram.enable()
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)

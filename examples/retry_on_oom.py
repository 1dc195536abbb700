#!/usr/bin/env python3
"""Train with a batch that does not fit: vram runs it in micro-batches, with the gradients of the whole batch.

On a machine with a GPU, PyTorch is limited to a small part of it. Without one, the model refuses more than 24 samples.
"""

from __future__ import annotations

import torch
from torch import nn

import vram

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
WIDTH, SAMPLES = (4096, 16384) if GPU else (64, 96)


class Net(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not GPU and len(x) > 24:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Simulated: {len(x)} samples, 24 fit")
        return super().forward(x)  # type: ignore[no-any-return, no-untyped-call]


@vram.retry_on_oom
def predict(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(batch)  # type: ignore[no-any-return]


def main() -> None:
    torch.manual_seed(0)
    model = Net(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if GPU:
        torch.cuda.set_per_process_memory_fraction((2 << 30) / torch.cuda.get_device_properties(0).total_memory)
    for number in range(3):
        x = torch.randn(SAMPLES, WIDTH, device=DEVICE)
        batch = {"x": x, "y": x[:, :1] * 2}
        done = vram.micro_batches(
            batch, lambda part: nn.functional.mse_loss(model(part["x"]), part["y"]), model=model, optimizer=optimizer
        )
        optimizer.step()
        optimizer.zero_grad()
        print(
            f"batch {number}: loss {float(done.loss):.3f}, {done.count} micro-batches of {done.size}, {done.retries} retries"
        )
    print(f"predicted {len(predict(model, batch['x']))} samples")


if __name__ == "__main__":
    main()

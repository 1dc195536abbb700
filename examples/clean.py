"""Find the cycles that hold tensors in a small training that leaks, and free memory with a Cleaner if that is worthwhile.

Runs anywhere: without a GPU the cycles are found among the host's tensors, and the cleaner reports that it has nothing to do.

    python examples/clean.py
"""

from __future__ import annotations

import gc

import torch

import vram


class Trainer:
    """Keeps its last batch, and a function that knows the trainer: a circle, which only a collection frees."""

    def __init__(self, width: int) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.layer = torch.nn.Linear(width, width, device=device)
        self.batch = torch.randn(64, width, device=device)
        self.on_end = lambda: print("trained on", self.batch.shape)

    def step(self) -> float:
        loss = self.layer(self.batch).square().mean()
        loss.backward()
        return float(loss)


def leak() -> None:
    """As in a search for the best width: each trainer is done with, none is freed."""
    for width in (128, 256, 512):
        Trainer(width).step()


def main() -> None:
    gc.disable()  # or Python might come first
    leak()
    print("cycles that hold tensors:")
    for cycle in vram.find_cycles(devices="all", collect=True):
        print(f"  {cycle}")
    gc.enable()

    trainer = Trainer(256)
    with vram.Cleaner(step="cycles", epoch="workspaces", end="host") as cleaner:
        for _ in range(2):
            for _ in range(5):
                trainer.step()
                cleaner.step()
            print(cleaner.epoch())
    print(cleaner.last)


if __name__ == "__main__":
    main()

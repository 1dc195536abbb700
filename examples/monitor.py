"""Measure the parts of a training step: time, GPU memory and its peak, to the log and to a file of JSON lines.

Runs anywhere: without a GPU the times are measured, and the log says why the memory is unknown.

    python examples/monitor.py [vram.jsonl]
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import torch

import vram


@vram.monitor("step", every=5)  # the 1st, 6th, 11th … call
def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> float:
    with vram.monitor("forward"):
        loss = model(batch).square().mean()
    with vram.monitor("backward"):
        optimizer.zero_grad()
        loss.backward()
    optimizer.step()
    return float(loss)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")  # the line of each region
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "vram.jsonl")
    vram.add_sink(vram.JsonLines(path))  # the same, for machines

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with vram.monitor("training", synchronize=True) as region:
        for _ in range(10):
            step(model, optimizer, torch.randn(32, 256, device=device))

    print(f"training took {region.result.duration_ns / 1e9:.2f} s" if region.result else "not measured")
    print(f"{len(path.read_text().splitlines())} lines in {path}")


if __name__ == "__main__":
    main()

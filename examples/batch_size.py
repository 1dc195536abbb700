#!/usr/bin/env python3
"""Find the largest batch that trains within a budget, by about three real steps. Without a GPU: on a simulated one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch import nn

import vram


def on_this_gpu(budget: str) -> vram.BatchSize:
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def trial(batch_size: int) -> None:
        optimizer.zero_grad()
        model(torch.randn(batch_size, 256, 512, device="cuda")).square().mean().backward()
        optimizer.step()

    return vram.find_batch_size(trial, budget=budget)


def on_a_simulated_gpu(budget: str) -> vram.BatchSize:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "package"))
    from simulated_training import GIB, MIB, Model, SimulatedTraining

    model = Model(parameters=GIB, state=2 * GIB, blocks=[3 * MIB] * 24, transient=8 * MIB)
    training = SimulatedTraining(model, capacity=80 * GIB)
    return training.find_batch_size(budget=budget)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", default="8GiB", help="what the process may hold (8GiB)")
    budget = parser.parse_args().budget
    found = on_this_gpu(budget) if torch.cuda.is_available() else on_a_simulated_gpu(budget)
    for trial in found.trials:
        held = f"held {trial.peak_bytes / 2**30:.2f} GiB" if trial.peak_bytes is not None else "ran out of memory"
        print(f"{trial.batch_size:6} samples: {held}")
    print(f"batch size {found.batch_size}: {found.reason}")


if __name__ == "__main__":
    main()

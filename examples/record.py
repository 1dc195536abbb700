"""Record a training with names, and let the program `vram` explain where the memory of a step goes.

Runs anywhere: without a GPU there are steps and scopes, but no memory to record.

    python examples/record.py [run.vtrace]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import vram


def train(device: str) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    with vram.watch(model, optimizer):  # modules, parameters, gradients and optimizer states get names
        for _ in range(4):
            vram.step()
            with vram.scope("data"):
                batch = torch.randn(32, 256, device=device)
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def explain(path: Path) -> None:
    program = shutil.which("vram")
    if program is None:
        print(f"explain it with: vram report {path}")
    else:
        subprocess.run([program, "report", path], check=True)


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "run.vtrace"
    with vram.record(path, stacks="python") as recording:  # before the model is made, so that all of it is seen
        train("cuda" if torch.cuda.is_available() else "cpu")
    print(f"{recording.events} events in {recording.path}, {recording.lost} lost", flush=True)
    if recording.events > 0:
        explain(recording.path)
    else:
        print("no GPU memory was used, so there is nothing to explain; `vram demo` shows a report on any machine")


if __name__ == "__main__":
    main()

"""Dry runs with a build of PyTorch for CUDA that sees no GPU, as on a laptop. It needs no GPU, but such a build."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import torch
from torch import nn
import vram

assert torch.version.cuda is not None and not torch.cuda.is_available()
for _ in range(2):
    with vram.dry_run(gpu="24GiB") as run:
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.randn(16, 3, 32, 32, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not torch.cuda.is_available() and torch.ones(2, requires_grad=True).sum().backward() is None
    print(run.peak.requested_bytes)
with vram.dry_run(gpu="24GiB", world_size=2):
    try:
        nn.parallel.DistributedDataParallel(nn.Linear(4, 4).cuda())
    except vram.VramError as error:
        assert "build for the CPU" in str(error), error
    else:
        raise AssertionError("DistributedDataParallel ran")
"""


def test_a_build_for_cuda_that_sees_no_gpu() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    first, second = (int(line) for line in done.stdout.split())
    assert first == second > 0

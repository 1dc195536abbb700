"""A dry run against a recording of the same program on an H200 (demo/README.md): a U-Net whose images change their size."""

# mypy: allow-untyped-calls

from __future__ import annotations

import lzma
import pickle
import random
from pathlib import Path
from typing import Any

import dry_events
import pytest
import torch
from torch import nn
from torch.nn import functional

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "unet_multiscale.pickle.xz"
STEPS = 4
MIN_BYTES = 64 << 10  # kernels' temporaries of these sizes would be mistaken for results
CHANNELS = (64, 128, 256, 512, 512)


def block(before: int, after: int) -> nn.Sequential:
    first = (nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())
    return nn.Sequential(*first, nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(8, after), nn.SiLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        before = 3
        for after in CHANNELS:
            self.down.append(block(before, after))
            before = after
        for after in reversed(CHANNELS[:-1]):
            self.up.append(block(before + after, after))
            before = after
        self.head = nn.Conv2d(before, 3, 1)

    def forward(self, x: Any) -> Any:
        skipped = []
        for level, down in enumerate(self.down):
            x = down(x)
            if level < len(self.down) - 1:
                skipped.append(x)
                x = functional.max_pool2d(x, 2)
        for up in self.up:
            skip = skipped.pop()
            x = functional.interpolate(x, size=skip.shape[-2:])
            x = up(torch.cat([x, skip], 1))
        return self.head(x)


def train(device: str) -> Any:
    sizes = random.Random(0)
    model = UNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    average = [parameter.detach().clone() for parameter in model.parameters()]
    for _ in range(STEPS):
        height, width = sizes.choice(range(192, 769, 32)), sizes.choice(range(192, 769, 32))
        x = torch.randn(max(1, int(8 * 512 * 512 / (height * width))), 3, height, width, device=device)
        with torch.autocast(device, torch.bfloat16):
            loss = functional.mse_loss(model(x), x)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for mean, parameter in zip(average, model.parameters(), strict=True):
            mean.lerp_(parameter.detach(), 0.01)
    return loss


def recorded() -> list[int]:
    with lzma.open(RECORDING) as file:
        trace = pickle.load(file)["device_traces"][0]
    signs = {"alloc": 1, "free_requested": -1}
    return [signs[event["action"]] * event["size"] for event in trace if event["action"] in signs]


def test_every_allocation_of_a_tensor_is_recorded_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = dry_events.Tape(monkeypatch)
    tape.run(train, tmp_path, gpu="H200", torch_version="2.11.0")
    real, at = recorded(), 0
    for event in tape.at_end:
        if event >= MIN_BYTES:  # frees: autocast drops its weights in an order that depends on their addresses
            found = next((index for index in range(at, min(at + 200, len(real))) if real[index] == event), None)
            assert found is not None, (
                f"an allocation of {event} bytes is not among {real[at : at + 20]} and those after"
            )
            at = found + 1
    assert at > 4000
    assert dry_events.peak(tape.at_end) == pytest.approx(dry_events.peak(real[:at]), rel=0.002)

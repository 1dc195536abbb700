"""How much the gradients of the ResNet of checkpoint_models.py depend on rounding: uncompiled, on one GPU; prints shares of their norm.

python bench/checkpoint_rounding.py
"""

# mypy: ignore-errors

from __future__ import annotations

import torch
from checkpoint_models import ResNet, gradients


def main():
    torch.manual_seed(0)
    with torch.device("cuda"):
        model, sample = ResNet(), torch.randn(128, 3, 224, 224)
    for is_tf32 in (True, False):
        torch.backends.cudnn.allow_tf32 = is_tf32
        expected = gradients(model, sample)
        inputs = {"again": sample, "channels last": sample.to(memory_format=torch.channels_last)}
        inputs |= {f"input changed by {e:g}": sample * (1 + e * torch.randn_like(sample)) for e in (1e-7, 1e-5)}
        for name, changed in inputs.items():
            difference = float((gradients(model, changed) - expected).norm() / expected.norm())
            print(f"TF32 {'on' if is_tf32 else 'off'}, {name}: {difference:.6f}")


if __name__ == "__main__":
    main()

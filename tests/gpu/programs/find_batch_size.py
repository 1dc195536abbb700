"""The largest batch of a small transformer under a limit, and what a batch 5 % larger needs; prints it.

find_batch_size.py native|expandable|pool
"""

from __future__ import annotations

import json
import math

import torch
from scarce import begin, limited, peak_of
from torch import nn

import vram

LIMIT = 16 << 30


def main() -> None:
    begin()
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def trial(batch_size: int) -> None:
        model(torch.randn(batch_size, 128, 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    with limited(LIMIT):
        found = vram.find_batch_size(trial)
        peak = peak_of(lambda: trial(found.batch_size))
    larger = peak_of(lambda: trial(math.ceil(1.05 * found.batch_size)))
    result = {"size": found.batch_size, "budget": found.budget_bytes, "limit": LIMIT, "peak": peak, "larger": larger}
    tried = [(trial.batch_size, trial.peak_bytes, trial.slack_bytes) for trial in found.trials]
    print(json.dumps(result | {"trials": tried, "why": found.reason}), flush=True)


if __name__ == "__main__":
    main()

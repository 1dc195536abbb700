"""Gradients of models whose blocks are compiled with several budgets, from those of the uncompiled model; prints JSON.

In double precision, and without dropout, for which compiled code draws other numbers.
"""

import importlib
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from vram.planning._compiled import Applied, Compiler
from vram.planning._region import CheckpointRegion

sys.path.append(str(Path(__file__).parents[3] / "bench"))
models: Any = importlib.import_module("checkpoint_models")

assert sys.argv[1] == "native"
REGIONS = (CheckpointRegion(0, 2, parts=(CheckpointRegion(0, 1),)),)
warnings.simplefilter("ignore")
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
with torch.device("cuda"):
    resnet, images = models.ResNet((1, 1), 16), torch.randn(8, 3, 64, 64)
    gpt, tokens = models.Gpt(128, 4, 4, 100, 64), torch.randint(0, 100, (4, 64))
for module in gpt.modules():
    if isinstance(module, torch.nn.Dropout):
        module.p = 0.0


def differences(model: Any, sample: torch.Tensor, blocks: list[Any]) -> dict[str, float]:
    """The norm of the difference, as a share of that of the gradients, by what blocks keep."""
    count = len(blocks)
    ways = {str(budget): [budget] * count for budget in (1.0, 0.99, 0.0)}
    ways["mixed"] = [(0.99, 0.0, 1.0)[3 * i // count] for i in range(count)]
    expected, compiler, found = models.gradients(model, sample), Compiler(), {}
    for way, budgets in ways.items():
        for regions in ((), REGIONS) if way == "mixed" else ((),):
            applied = Applied(model, blocks, "blocks", budgets, regions, compiler)
            difference = (models.gradients(model, sample) - expected).norm() / expected.norm()
            found[f"{way}, {len(regions)} regions"] = float(difference)
            applied.remove()
    return found


began = time.monotonic()
found = {
    "resnet": differences(resnet, images, [resnet.stem, *resnet.blocks]),
    "gpt": differences(gpt, tokens, list(gpt.blocks)),
}
print(json.dumps({"differences": found, "seconds": time.monotonic() - began}))

"""Prints what vram.Cleaner frees on a GPU, grade by grade, and PyTorch's figures.

clean.py native|expandable|pool
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

import torch

import vram

MIB = 1 << 20


class Trainer:
    """Keeps itself and a tensor alive."""

    def __init__(self, size_bytes: int) -> None:
        self.itself = self
        self.activations = torch.empty(size_bytes, dtype=torch.uint8, device="cuda")


def graded(report: vram.Cleaning) -> dict[str, Any]:
    return {
        cleaned.grade.name.lower(): {
            "skipped": cleaned.skipped,
            "device": cleaned.device_bytes,
            "host": cleaned.host_bytes,
            "cycles": [(cycle.bytes, str(cycle)) for cycle in cleaned.cycles],
        }
        for cleaned in report.grades
    }


def figures() -> dict[str, int]:
    pinned = torch.cuda.host_memory_stats()
    return {
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "pinned": pinned["allocated_bytes.current"],
        "plans": torch.backends.cuda.cufft_plan_cache[0].size,
    }


def cycles() -> dict[str, Any]:
    begun = figures()
    Trainer(64 * MIB)
    Trainer(16 * MIB)
    before = figures()
    found = [cycle.bytes for cycle in vram.find_cycles()]
    cleaner = vram.Cleaner(step="cycles", min_bytes="1MiB")
    first = graded(cleaner.step())
    after = figures()
    second = graded(cleaner.step())
    return {"begun": begun, "before": before, "after": after, "found": found, "first": first, "second": second}


def workspaces() -> dict[str, Any]:
    """And the cache, which is where their memory goes."""
    x = torch.ones(512, 512, device="cuda")
    torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")  # to the cache, at once
    begun = figures()
    (x @ x).sum().item()  # cuBLAS has its workspace from here on
    torch.fft.rfft(x)
    before = figures()
    cleaner = vram.Cleaner(epoch="workspaces", min_free_fraction=1.0)  # memory always counts as needed
    first = graded(cleaner.epoch())
    after = figures()
    second = graded(cleaner.epoch())
    product = (x @ x)[0, 0].item()  # works as before
    result = {"begun": begun, "before": before, "after": after, "first": first, "second": second}
    return result | {"product": product}


def host() -> dict[str, Any]:
    kept = torch.empty(32 * MIB, dtype=torch.uint8, pin_memory=True)
    torch.empty(256 * MIB, dtype=torch.uint8, pin_memory=True)
    before = figures()
    cleaner = vram.Cleaner(end="host")
    first = graded(cleaner.end())
    after = figures()
    second = graded(cleaner.end())
    return {"before": before, "after": after, "first": first, "second": second, "kept": kept.nbytes}


def main() -> None:
    gc.disable()  # Python does not collect what is planted before it is looked for
    if sys.argv[1] == "pool":
        vram.enable()
    torch.zeros(1, device="cuda")
    gc.collect()
    print(json.dumps({check.__name__: check() for check in (cycles, workspaces, host)}), flush=True)


if __name__ == "__main__":
    main()

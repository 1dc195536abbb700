"""Compares the workspaces that cuDNN states for convolutions (vram/dry/_plans.py) with those that calls took.

    python bench/prediction/plans.py KERNELS MEASURED [--every 1] [--gpu H200] [--torch 2.11.0]

KERNELS and MEASURED are folders that kernels.py and measure.py wrote. No rule was chosen with these calls, so all groups are compared. With a GPU of this
kind on the machine, cuDNN answers for it, else for its description; the first line says which.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
from convolutions import NEGLIGIBLE, rows, segments
from fit import argument, flat

from vram.dry._convolutions import DATA, DTYPES, FORWARD, WEIGHT, Workspaces, copy_bytes
from vram.dry._gpu import find_gpu
from vram.dry._plans import Plans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many calls, compare one")
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--torch", default="2.11.0")
    wanted = parser.parse_args()
    plans = Plans.load(find_gpu(wanted.gpu), wanted.torch)
    if plans is None or not plans.is_open:
        raise SystemExit("this machine has no GPU, or not the cuDNN of this PyTorch")
    print("for the GPU of this machine" if plans.is_exact else "for a description of the GPU")
    workspaces = Workspaces.load("convolutions-2.11.json", plans)
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    calls = [row for odd in (False, True) for row in rows(wanted.kernels, wanted.measured, odd)]
    for group, row in calls[:: wanted.every]:
        if not row["op"].startswith("aten.convolution") or "error" in row:
            continue
        arguments = argument(row["args"])
        if row["op"] == "aten.convolution.default":
            x, weight, _, *how, _, groups = arguments
            y, directions = flat(argument(row["out"]))[0], [FORWARD]
        else:
            y, x, weight, _, *how, _, groups, mask = arguments
            directions = [name for name, is_wanted in zip((DATA, WEIGHT), mask[:2], strict=True) if is_wanted]
        shapes = [tensor.shape for tensor in (x, weight, y)]
        if str(x.dtype).rpartition(".")[2] not in DTYPES or any(0 in shape for shape in shapes):
            continue
        live = sum(math.prod(shape) for shape in shapes) * x.dtype.itemsize
        for direction, temporaries in zip(directions, segments(row)[1:], strict=False):
            took = max(0, sum(temporaries) - copy_bytes(x if direction == WEIGHT else weight, x, weight))
            error = abs(workspaces.bytes_of(direction, x, weight, y, *how, groups) - took)
            kind = "networks (H100)" if group.startswith("network_conv") else "others (H200)"
            for name in (f"{len(shapes[0]) - 2}-D {direction}", kind, "all"):
                found[name].append((error, error / (live + took)))
    plans.close()
    for name, pairs in sorted(found.items()):
        errors, shares = np.array(pairs).T
        exact, close = np.mean(errors < NEGLIGIBLE), np.mean(shares <= 0.01)
        print(
            f"{name:20}{len(pairs):7} exact {exact:6.1%}, within 1 % {close:6.1%}, mean {shares.mean():5.2%}, p95 {np.quantile(shares, 0.95):5.1%}"
        )


if __name__ == "__main__":
    main()

"""Compares the workspaces that cuDNN states for convolutions (vram/dry/_plans.py), or that are estimated, with those that calls took.

    python bench/prediction/plans.py KERNELS MEASURED [--estimated] [--every 1] [--gpu H200] [--torch 2.11.0]

KERNELS and MEASURED are folders that kernels.py and measure.py wrote. What cuDNN states was not chosen with these calls, so all groups are compared; trees were learned from those "for choosing". With a GPU of this
kind on the machine, cuDNN answers for it, else for its description; the first line says which. --estimated: cuDNN is not asked.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
from convolutions import NAME, NEGLIGIBLE_BYTES
from measured_calls import measured_calls

from vram.dry._convolutions import DTYPES, Workspaces
from vram.dry._gpu import find_gpu
from vram.dry._plans import Plans


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("measured", type=Path)
    parser.add_argument("--estimated", action="store_true")
    parser.add_argument("--every", type=int, default=1, help="of so many calls, compare one")
    parser.add_argument("--gpu", default="H200")
    parser.add_argument("--torch", default="2.11.0")
    wanted = parser.parse_args()
    plans = None if wanted.estimated else Plans.load(find_gpu(wanted.gpu), wanted.torch)
    if wanted.estimated:
        print("estimated")
    elif plans is None or not plans.is_open:
        raise SystemExit("this machine has no GPU, or not the cuDNN of this PyTorch")
    else:
        print("for the GPU of this machine" if plans.is_exact else "for a description of the GPU")
    workspaces = Workspaces(NAME, plans)
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for each in [*measured_calls(wanted.kernels, wanted.measured)][:: wanted.every]:
        direction, *tensors = each.call[:4]
        live = sum(math.prod(tensor.shape) * tensor.dtype.itemsize for tensor in tensors)
        if str(tensors[0].dtype).rpartition(".")[2] not in DTYPES or not live:
            continue
        error = abs(workspaces.bytes_of(*each.call) - each.workspace_bytes)
        kind = "networks (H100)" if each.group.startswith("network_conv") else "others (H200)"
        half = "for choosing" if each.is_for_choosing else "for showing"
        for name in (f"{len(tensors[0].shape) - 2}-D {direction}", kind, half, f"{half}, {direction}", "all"):
            found[name].append((error, error / (live + each.workspace_bytes)))
    if plans:
        plans.close()
    for name, pairs in sorted(found.items()):
        errors, shares = np.array(pairs).T
        exact, close = np.mean(errors < NEGLIGIBLE_BYTES), np.mean(shares <= 0.01)
        print(
            f"{name:20}{len(pairs):7} exact {exact:6.1%}, within 1 % {close:6.1%}, mean {shares.mean():5.2%}, p95 {np.quantile(shares, 0.95):5.1%}"
        )


if __name__ == "__main__":
    main()

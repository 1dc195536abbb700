"""Measures with how little memory convolutions run: cuDNN has plans with smaller workspaces, which PyTorch takes if the first one's cannot be had.

    python bench/prediction/fallbacks.py OUT [--seconds 60] [--jobs 8]

The convolutions are those of probes_networks.py. Each direction is called with what its operands and its result take, and more and more of
the rest that it takes without a limit (`torch.cuda.set_per_process_memory_fraction()`), until it runs. OUT/fallbacks_GROUP.json.xz has a
row for each: the requested bytes without a limit and in the first call that ran, and the share of the rest that this took.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from processes import ENVIRONMENT, run_forked, save

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
MIB = 1 << 20


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--forked", action="store_true", help="internal: the environment is set")
    return parser.parse_args()


def segment_bytes(size: int) -> int:
    """Returns what PyTorch's allocator takes from the device for a request that no free block serves."""
    if size <= MIB:
        return 2 * MIB
    return 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB


def directions(each: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the name and the call of each direction of a convolution."""
    import torch

    x, weight = (value.detach() for value in each.operands())
    layer, dims = each.layer, len(each.layer.weight) - 2
    how = [*layer.stride], [*layer.padding], [*layer.dilation], layer.transposed, [0] * dims, layer.groups
    aten = torch.ops.aten
    yield "forward", lambda: aten.convolution(x, weight, None, *how)
    with torch.device("meta"):
        shape = aten.convolution(torch.empty(x.shape), torch.empty(weight.shape), None, *how).shape
    gradient = torch.randn(shape, device=x.device, dtype=x.dtype)
    if each.is_last:
        gradient = gradient.to(memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
    backward = functools.partial(aten.convolution_backward, gradient, x, weight, None, *how)
    if each.needs_input:
        yield "data", lambda: backward([True, False, False])
    yield "weight", lambda: backward([False, True, False])


def least(name: str, call: Callable[[], Any], total: int) -> dict[str, Any]:
    """Returns the row of one direction."""
    import torch

    def within(limit: int) -> tuple[int, int, int] | str:
        """Returns the peaks of requested and reserved bytes and the result's bytes, or the error."""
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(min(1.0, (limit + 1) / total))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_stats()["requested_bytes.all.current"]
        try:
            result = call()
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:80]
        stats = torch.cuda.memory_stats()
        made = sum(
            each.nbytes for each in (result if isinstance(result, (tuple, list)) else [result]) if each is not None
        )
        return stats["requested_bytes.all.peak"] - before, stats["reserved_bytes.all.peak"], made

    torch.cuda.empty_cache()
    base = torch.cuda.memory_reserved()
    free = within(total)
    if isinstance(free, str):
        return {"name": name, "error": free}
    floor = base + segment_bytes(free[2])
    row: dict[str, Any] = {"name": name, "requested": free[0], "result": free[2], "rest": free[1] - floor, "errors": []}
    if row["rest"] <= 0:
        return row | {"share": 0.0, "least": free[0]}
    for share in SHARES:
        found = within(floor + int(share * row["rest"]))
        if not isinstance(found, str):
            return row | {"share": share, "least": found[0]}
        row["errors"].append(found)
    return row


def measured(each: Any, total: int) -> Iterator[dict[str, Any]]:
    """Yields the rows of a convolution."""
    import torch

    torch.cuda.set_per_process_memory_fraction(1.0)  # for the operands
    with torch.device("cuda"):
        made = list(directions(each))
    for name, call in made:
        yield least(f"{each.name} p{each.layer.padding} d{each.layer.dilation} {name}", call, total)


def group(seed: int, path: Path, until: float) -> None:
    import probes_networks
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    total = torch.cuda.get_device_properties(0).total_memory
    rows: list[dict[str, Any]] = []
    for each in probes_networks.convolutions(seed):
        if time.time() > until:
            break
        rows += measured(each, total)
    save(path / f"fallbacks_{seed}.json.xz", rows)


def main() -> int:
    wanted = arguments()
    if not wanted.forked:
        return subprocess.call([sys.executable, __file__, *sys.argv[1:], "--forked"], env={**os.environ, **ENVIRONMENT})
    import probes_networks

    until = time.time() + wanted.seconds
    seeds = range(probes_networks.GROUPS_COUNT)
    tasks = [(f"fallbacks {seed}", functools.partial(group, seed, wanted.out, until)) for seed in seeds]
    return run_forked("fallbacks", tasks, wanted.jobs, wanted.seconds)


if __name__ == "__main__":
    sys.exit(main())

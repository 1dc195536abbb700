"""Compares the largest batch that vram.find_batch_size(dry=True) finds with the largest that runs on a GPU.

    python bench/prediction/batches.py predict FOUND.json [--gpu 16GiB] [--precision fp32] [--half choose|prove|fresh] [--only NAME…]
    python bench/prediction/batches.py measure FOUND.json OUT.json [--seconds 240] [--jobs 8]

`predict` needs no GPU. `measure` limits what PyTorch may reserve to what the prediction assumes (the memory of the GPU less the CUDA context
and the modules), with `torch.cuda.set_per_process_memory_fraction()`. It runs the batch that was found, which must fit, and finds the largest
that runs: by larger ones until one does not fit, and by bisection; with `--larger 0 2`, it runs only that batch and one 2 % larger. Each run is a process of its own, with four steps. It writes for each
family what each batch did.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from capacities import in_fork
from measure import STEPS
from processes import run_forked

# How much larger the next batch is while all fit, in percent. The bisection ends when less than one percent is between two.
LARGER_PERCENT = (3, 8, 20, 50)
CLOSE_PERCENT = 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    predicted = commands.add_parser("predict")
    predicted.add_argument("found", type=Path)
    predicted.add_argument("--gpu", default="16GiB")
    predicted.add_argument("--precision", default="fp32")
    predicted.add_argument("--half", choices=["choose", "prove", "fresh", "blind", "unseen", "later", "further"])
    predicted.add_argument("--only", nargs="*", default=[], help="names of families")
    predicted.add_argument("--seconds", type=float, default=7200)
    predicted.add_argument("--jobs", type=int, default=1)
    measured = commands.add_parser("measure")
    measured.add_argument("found", type=Path)
    measured.add_argument("out", type=Path)
    measured.add_argument("--seconds", type=float, default=240)
    measured.add_argument("--jobs", type=int, default=8)
    measured.add_argument(
        "--larger", type=int, nargs="*", help="run only batches that are so many percent larger, 0: as found"
    )
    return parser.parse_args()


def write(path: Path, found: dict[str, Any]) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")


def predict_one(family: Any, precision: str, gpu: str, out: Path) -> None:
    import families
    import torch

    import vram

    def steps(batch: int) -> None:
        torch.empty(1, device="cuda")
        torch.manual_seed(0)
        step = families.build(families.Program(family, precision, batch))
        for _ in range(STEPS):
            step()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = vram.find_batch_size(steps, gpu=gpu, dry=True, multiple_of=1, start=family.batches[0])
        with vram.dry_run(gpu) as run:
            steps(found.batch_size)
    peak = run.peak
    write(
        out,
        {
            "family": family.name,
            "half": family.half,
            "precision": precision,
            "batch_size": found.batch_size,
            "needed_bytes": found.peak_bytes,
            "limit_bytes": found.budget_bytes - (peak.device_bytes - peak.reserved_bytes),
            "budget_bytes": found.budget_bytes,
            "trials": len(found.trials),
            "reason": found.reason,
        },
    )


def predict(wanted: argparse.Namespace) -> int:
    import families

    families.preload()
    chosen = [
        family
        for family in families.FAMILIES
        if (not wanted.half or family.half == wanted.half) and (not wanted.only or family.name in wanted.only)
    ]
    if wanted.only:
        chosen.sort(key=lambda family: wanted.only.index(family.name))
    with tempfile.TemporaryDirectory() as folder:
        outs = {family.name: Path(folder) / f"{family.name}.json" for family in chosen}
        tasks = [
            (family.name, functools.partial(predict_one, family, wanted.precision, wanted.gpu, outs[family.name]))
            for family in chosen
        ]
        failed = run_forked("predictions", tasks, wanted.jobs, wanted.seconds)
        write(wanted.found, {name: json.loads(out.read_text()) for name, out in outs.items() if out.exists()})
    return min(failed, 1)


class _OutOfTime(Exception):
    """No further trial starts."""


def bisect(family: Any, row: dict[str, Any], out: Path, until: float) -> None:
    """Finds the largest batch that runs within the limit, in forks of this process; writes all trials after each."""
    import families

    found: dict[str, Any] = {}

    def fits(batch: int) -> bool:
        if time.time() > until:
            raise _OutOfTime(f"{family.name}: not finished")
        found[str(batch)] = in_fork(families.Program(family, row["precision"], batch), row["limit_bytes"])
        write(out, found)
        return bool(found[str(batch)]["outcome"] == "fits")

    first = row["batch_size"]
    low, high = (first, 0) if fits(first) else (0, first)
    for percent in LARGER_PERCENT:
        size = max(low + 1, first * (100 + percent) // 100) if low else max(1, first * (100 - percent) // 100)
        if (low and high) or (not low and size >= high):
            break
        low, high = (size, high) if fits(size) else (low, size)
    while low and high and (high - low) * 100 > CLOSE_PERCENT * low and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)


def run_one(family: Any, row: dict[str, Any], batch: int, out: Path) -> None:
    import families

    write(out, {str(batch): in_fork(families.Program(family, row["precision"], batch), row["limit_bytes"])})


def measure(wanted: argparse.Namespace) -> int:
    import families

    families.preload()
    found = json.loads(wanted.found.read_text())
    kinds = {family.name: family for family in families.FAMILIES}
    with tempfile.TemporaryDirectory() as folder:
        until = time.time() + wanted.seconds
        tasks, outs = [], []
        for percent in [None] if wanted.larger is None else wanted.larger:
            for name, row in found.items():
                outs.append((name, Path(folder) / f"{name}.{percent}.json"))
                if percent is None:
                    call = functools.partial(bisect, kinds[name], row, outs[-1][1], until)
                else:
                    batch = row["batch_size"] * (100 + percent) // 100 + (percent > 0)
                    call = functools.partial(run_one, kinds[name], row, batch, outs[-1][1])
                tasks.append((name if percent is None else f"{name} +{percent} %", call))
        run_forked("batches", tasks, wanted.jobs, wanted.seconds)
        for name, out in outs:
            if out.exists():
                found[name].setdefault("measured", {}).update(json.loads(out.read_text()))
    write(wanted.out, found)
    return 0


if __name__ == "__main__":
    options = arguments()
    sys.exit(predict(options) if options.command == "predict" else measure(options))

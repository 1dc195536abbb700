"""Compares the largest batch that vram.find_batch_size(dry=True) finds with the largest that runs on a GPU.

    python bench/prediction/batches.py predict FOUND.json [--gpu 16GiB] [--precision fp32] [--half choose|prove] [--only NAME…]
    python bench/prediction/batches.py measure FOUND.json OUT.json [--seconds 240] [--jobs 8]

`predict` needs no GPU. `measure` limits what PyTorch may reserve to what the prediction assumes (the memory of the GPU less the CUDA context
and the modules), with `torch.cuda.set_per_process_memory_fraction()`. It runs the batch that was found, which must fit, and larger ones, the
first 2 % larger. It writes for each family the sizes that ran, those that ran out of memory, and the bytes that the process had on the device.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from capacities import run_within
from measure import STEPS
from processes import now, run_forked

# How much larger than the batch that was found the batches are that `measure` also runs: one more than so many percent.
LARGER_PERCENT = (2, 5, 10, 20)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    predicted = commands.add_parser("predict")
    predicted.add_argument("found", type=Path)
    predicted.add_argument("--gpu", default="16GiB")
    predicted.add_argument("--precision", default="fp32")
    predicted.add_argument("--half", choices=["choose", "prove"])
    predicted.add_argument("--only", nargs="*", default=[], help="names of families")
    measured = commands.add_parser("measure")
    measured.add_argument("found", type=Path)
    measured.add_argument("out", type=Path)
    measured.add_argument("--seconds", type=float, default=240)
    measured.add_argument("--jobs", type=int, default=8)
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
        found = vram.find_batch_size(steps, gpu=gpu, dry=True, multiple_of=1, start=family.batches[0], max_trials=12)
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
    found: dict[str, Any] = {}
    failed = 0
    for family in families.FAMILIES:
        if (wanted.half and family.half != wanted.half) or (wanted.only and family.name not in wanted.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "found.json"
            task = functools.partial(predict_one, family, wanted.precision, wanted.gpu, out)
            failed += run_forked(family.name, [(family.name, task)], 1, 600)
            if out.exists():
                found[family.name] = json.loads(out.read_text())
                write(wanted.found, found)
    return min(failed, 1)


def trial(program: Any, limit_bytes: int, out: Path) -> None:
    write(out, run_within(program, limit_bytes) | now())


def measure(wanted: argparse.Namespace) -> int:
    import families

    families.preload()
    found = json.loads(wanted.found.read_text())
    kinds = {family.name: family for family in families.FAMILIES}
    with tempfile.TemporaryDirectory() as folder:
        tasks, outs = [], {}
        for larger in (None, *LARGER_PERCENT):
            for name, row in found.items():
                batch = row["batch_size"] if larger is None else row["batch_size"] * (100 + larger) // 100 + 1
                out = Path(folder) / f"{name}.{batch}.json"
                if out in outs:
                    continue
                outs[out] = (name, batch)
                program = families.Program(kinds[name], row["precision"], batch)
                call = functools.partial(trial, program, row["limit_bytes"], out)
                tasks.append((f"{name}.{batch}", call))
        run_forked("batches", tasks, wanted.jobs, wanted.seconds)
        for out, (name, batch) in outs.items():
            if out.exists():
                found[name].setdefault("measured", {})[batch] = json.loads(out.read_text())
    write(wanted.out, found)
    return 0


if __name__ == "__main__":
    options = arguments()
    sys.exit(predict(options) if options.command == "predict" else measure(options))

"""Predicts the peaks of the programs of families.py, and compares them with those measured on a GPU.

    python bench/prediction/peaks.py predict PREDICTED.json [--half choose|prove|fresh] [--only NAME…] [--gpu H200] [--jobs 1]
    python bench/prediction/peaks.py compare MEASURED PREDICTED.json OUT.csv [--capacities FOLDER]

`predict` needs no GPU and no measurements, so it can run before them. Each dry run has a process of its own; its trace is replayed with each
allocator. The choices of kernels are those of the PyTorch that is measured. Programs that PREDICTED.json has already are left out. A program
whose dry run fails has the error in place of figures, and the script ends with 1.

MEASURED is a folder that measure.py wrote, FOLDER one of capacities.py. "outside" is what the device has in use besides PyTorch's segments; it
is compared for programs in the folder `alone` in MEASURED or next to it.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import json
import lzma
import statistics
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from measure import ALLOCATORS, STEPS
from processes import run_forked

COLUMNS = ["program", "half", "allocator", "recorded_peak_bytes", "predicted_peak_bytes", "error_percent", "recorded_reserved_bytes",
           "predicted_reserved_bytes", "reserved_error_percent", "recorded_least_bytes", "predicted_least_bytes", "least_error_percent",
           "recorded_outside_bytes", "predicted_outside_bytes", "outside_error_percent", "unknown_operators", "estimated_operators", "error"]  # fmt: skip

# How many halves of a standard deviation of the least memory a promise is looked for below the sum of both.
MOST_STEPS_LESS = 8


def percent(predicted: int, recorded: int) -> str:
    return f"{100 * (predicted / recorded - 1):+.3f}"


def predict(program: Any, gpu: str, torch_version: str, out: Path) -> None:
    """Writes the peaks of the dry run under each allocator, or the error, to `out`."""
    import families
    import torch

    import vram
    from vram.dry import _program

    found: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with vram.dry_run(gpu, torch_version=torch_version) as run:
                torch.empty(1, device="cuda")
                torch.manual_seed(0)
                step = families.build(program)
                for _ in range(STEPS):
                    step()
                del step
        found |= {
            "unknown": " ".join(run.unknown_operators),
            "estimated": " ".join(run.estimated_operators),
            "outside": run._running().outside_bytes,
        }
        for allocator, settings in ALLOCATORS.items():
            name = f"torch:{settings.replace(':', '=')}".rstrip(":")
            replayed = _program.replay(run.trace_path, name)
            least = _program.replay(run._path_at_limit, name, finds_capacity=True)["min_capacity_bytes"]
            found[allocator] = [replayed["peak_requested_bytes"], replayed["peak_reserved_bytes"], least]
            found.setdefault("limits", {})[allocator] = promised(run, name)
            found.setdefault("least", {})[allocator] = run._needed_bytes - found["outside"]
    except Exception as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    out.write_text(json.dumps(found))


def promised(run: Any, allocator: str) -> int:
    """Returns the least that the allocator may reserve for which a dry run promises that the program fits, as it does with a little more, up to where
    its least memory and a margin suffice."""
    from vram.dry import _least
    from vram.dry._results import fits_near, fits_on

    run._settings = dataclasses.replace(run._settings, allocator=allocator)
    for name in ("_needed_bytes", "_replayed", "peak", "fits"):
        run.__dict__.pop(name, None)
    needed, error, outside = run._needed_bytes, run.relative_error, int(run._running().outside_bytes)
    low, high = needed, 2 * needed
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits_on(middle, needed, error) else (middle, high)
    step = needed * error / 2
    steps = range(-MOST_STEPS_LESS - 6, 7)
    amounts = [int(high + each * step) - outside for each in steps]
    failed = run._least_of(run._path_at_limit).failed_bytes + outside
    amounts = [*amounts, failed - outside]
    *of_steps, of_failed = _least.shares_completed(run._path_at_limit, allocator, amounts)
    shares = dict(zip(steps, of_steps, strict=True))

    def near(totals: list[int]) -> list[float]:
        return [of_failed if abs(total - failed) <= 1 else shares[round((total - high) / step)] for total in totals]

    fitting = 0
    while fitting < MOST_STEPS_LESS and fits_near(int(high - (fitting + 1) * step), needed, error, near, failed):
        fitting += 1
    return int(high - fitting * step) - outside


def least(capacities: Path | None, allocator: str, program: str) -> int | None:
    """Returns the least memory that was enough on the GPU; None: not measured, or the bisection did not begin."""
    path = capacities / allocator / f"{program}.json.xz" if capacities else None
    if path is None or not path.exists():
        return None
    with lzma.open(path) as file:
        found = json.load(file)
    return int(found["fits_bytes"]) if found["trials"] else None


def outside(measured: Path, allocator: str, program: str) -> int | None:
    """Returns what the device had in use besides PyTorch's segments, of a program that ran alone with the native allocator."""
    for folder in (measured / "alone", measured.parent / "alone"):
        path = folder / f"{program}.json.xz"
        if allocator == "native" and path.exists():
            with lzma.open(path) as file:
                last = json.load(file)["steps"][-1]
            return int(last["device_used"] - last["reserved"])
    return None


def rows(measured: Path, capacities: Path | None, program: Any, found: dict[str, Any]) -> list[dict[str, Any]]:
    made = []
    for allocator in ALLOCATORS:
        path = measured / allocator / f"{program.name}.json.xz"
        if not path.exists():
            continue
        with lzma.open(path) as file:
            peaks = json.load(file).get("peaks")
        if not peaks:
            continue
        recorded, reserved = peaks["requested_bytes.peak"], peaks["reserved_bytes.peak"]
        row = {"program": program.name, "half": program.family.half, "allocator": allocator, "recorded_peak_bytes": recorded,
               "recorded_reserved_bytes": reserved, "error": found.get("error", "")}  # fmt: skip
        if allocator in found:
            predicted = found[allocator]
            row |= {"predicted_peak_bytes": predicted[0], "error_percent": percent(predicted[0], recorded),
                    "predicted_reserved_bytes": predicted[1], "reserved_error_percent": percent(predicted[1], reserved),
                    "predicted_least_bytes": predicted[2], "unknown_operators": found["unknown"],
                    "estimated_operators": found.get("estimated", "")}  # fmt: skip
            enough = least(capacities, allocator, program.name)
            if enough:
                row |= {"recorded_least_bytes": enough, "least_error_percent": percent(predicted[2], enough)}
            taken = outside(measured, allocator, program.name)
            if taken:
                row |= {"recorded_outside_bytes": taken, "predicted_outside_bytes": found["outside"],
                        "outside_error_percent": percent(found["outside"], taken)}  # fmt: skip
        made.append(row)
    return made


def summary(table: list[dict[str, Any]]) -> None:
    for half in dict.fromkeys(row["half"] for row in table):
        for allocator in ALLOCATORS:
            chosen = [row for row in table if row["half"] == half and row["allocator"] == allocator]
            for name in ("error_percent", "reserved_error_percent", "least_error_percent", "outside_error_percent"):
                signed = [float(row[name]) for row in chosen if name in row]
                errors = sorted(map(abs, signed))
                if errors:
                    p95 = errors[min(len(errors) - 1, int(0.95 * len(errors)))]
                    print(f"{half:6} {allocator:10} {name:22} {len(errors):3} of {len(chosen):3} programs: "
                          f"median {statistics.median(errors):.3f}, p95 {p95:.3f}, from {min(signed):+.3f} to {max(signed):+.3f} %")  # fmt: skip


def arguments() -> argparse.Namespace:
    import families

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    predicting = commands.add_parser("predict")
    predicting.add_argument("predicted", type=Path)
    predicting.add_argument("--half", choices=families.GROUPS)
    predicting.add_argument("--only", nargs="*", default=[], help="names of families")
    predicting.add_argument("--gpu", default="H200")
    predicting.add_argument("--torch", default="2.11.0", help="the PyTorch that is measured")
    predicting.add_argument("--jobs", type=int, default=1)
    predicting.add_argument("--seconds", type=float, default=7200, help="no program starts later than this")
    comparing = commands.add_parser("compare")
    comparing.add_argument("measured", type=Path)
    comparing.add_argument("predicted", type=Path)
    comparing.add_argument("out", type=Path)
    comparing.add_argument("--capacities", type=Path)
    return parser.parse_args()


def predict_all(wanted: argparse.Namespace) -> int:
    import families

    families.preload()
    found = json.loads(wanted.predicted.read_text()) if wanted.predicted.exists() else {}
    chosen = [
        program
        for program in families.programs((wanted.half,) if wanted.half else families.GROUPS)
        if program.name not in found and (not wanted.only or program.family.name in wanted.only)
    ]
    with tempfile.TemporaryDirectory() as folder:
        outs = {program.name: Path(folder) / f"{program.name}.json" for program in chosen}
        tasks = [
            (program.name, functools.partial(predict, program, wanted.gpu, wanted.torch, outs[program.name]))
            for program in chosen
        ]
        run_forked("predictions", tasks, wanted.jobs, wanted.seconds)
        found |= {name: json.loads(out.read_text()) for name, out in outs.items() if out.exists()}
    lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    wanted.predicted.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return int(any("error" in each for each in found.values()))


def compare(wanted: argparse.Namespace) -> int:
    import families

    found = json.loads(wanted.predicted.read_text())
    table: list[dict[str, Any]] = []
    for program in families.programs(families.GROUPS):
        if program.name in found:
            table += rows(wanted.measured, wanted.capacities, program, found[program.name])
    with wanted.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    summary(table)
    return int(any(row["error"] for row in table))


def main() -> int:
    wanted = arguments()
    return predict_all(wanted) if wanted.command == "predict" else compare(wanted)


if __name__ == "__main__":
    sys.exit(main())

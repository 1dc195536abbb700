"""Measures what `vram plan --model` estimates, with the models and cases of model_programs.py.

    python bench/prediction/model_truth.py measure --out OUT [--seconds 170] [--jobs 8] [--only MODEL…]     # on a GPU
    python bench/prediction/model_truth.py measure --out OUT --device cpu                                   # tiny: checks the script itself
    python bench/prediction/model_truth.py predict --out OUT --program build/release/src/vram --csv FILE [--half choose] [--dry]

`measure` needs torch and transformers only. It runs each model in a process of its own and writes OUT/MODEL.json.xz: for each case
the peak of requested and of reserved bytes of two steps, and the peak of each phase of the second. A case that fails has an error
instead. `predict` needs the library too, and writes one row for each case: what was measured, what the plan says, and with --dry
what a dry run of the same step says.
"""

from __future__ import annotations

import argparse
import csv
import functools
import gc
import json
import lzma
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from model_programs import CASES, MODELS, STEPS, Case, Model, config_of, program
from processes import ENVIRONMENT, run_forked, save


def counters() -> dict[str, int]:
    import torch

    if not torch.cuda.is_available():
        return {"requested": 0, "reserved": 0}
    stats = torch.cuda.memory_stats()
    return {"requested": stats["requested_bytes.all.peak"], "reserved": stats["reserved_bytes.all.peak"]}


def measured(model: Model, config: Any, case: Case, device: str) -> dict[str, Any]:
    """Returns the peaks of a case; nothing of earlier cases counts."""
    import torch

    cuda = torch.cuda.is_available()
    gc.collect()
    if cuda:
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
    before = torch.cuda.memory_stats().get("requested_bytes.all.current", 0) if cuda else 0
    torch.manual_seed(0)
    step = program(model, config, case, device)
    phases: dict[str, int] = {}
    highest = counters()

    def note(phase: str) -> None:
        found = counters()
        phases[phase] = found["requested"]
        for key, value in found.items():
            highest[key] = max(highest[key], value)
        if cuda:
            torch.cuda.reset_peak_memory_stats()

    note("build")
    for _ in range(STEPS):
        step(note)
    return {
        "requested_bytes": highest["requested"],
        "reserved_bytes": highest["reserved"],
        "before_bytes": before,
        "phases": phases,
    }


def measure_model(name: str, path: Path, device: str) -> None:
    """Measures the cases of a model, and saves what there is after each of them."""
    import torch
    import transformers

    torch.set_num_threads(1)
    model, tiny = MODELS[name], device == "cpu"
    found: dict[str, Any] = {
        "model": name, "half": model.half, "config": None, "torch": torch.__version__, "transformers": transformers.__version__,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None, "rows": [],
    }  # fmt: skip
    for case in CASES:
        row = asdict(case)
        try:
            config = config_of(model, tiny)
            found["config"] = config.to_dict()
            if tiny:
                case = Case(**{**row, "batch": 2, "sequence": 16})
            row |= measured(model, config, case, device)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:400]
            print(f"{name}: {row}", file=sys.stderr, flush=True)
        found["rows"].append(row)
        save(path / f"{name}.json.xz", found)
    if any("error" in row for row in found["rows"]):
        raise SystemExit(1)


def measure(wanted: argparse.Namespace) -> int:
    import transformers

    for model in MODELS.values():  # imported once, before the forks
        getattr(transformers, model.class_name)
    names = wanted.only or [*MODELS]
    tasks = [(name, functools.partial(measure_model, name, wanted.out, wanted.device)) for name in names]
    return run_forked("models", tasks, wanted.jobs, wanted.seconds)


# ------------------------------------------------------------------------------------------------ comparing


def estimated(program_path: str, config: Any, case: Case) -> int:
    """Returns the peak that `vram plan --model` says."""
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        command = [program_path, "plan", "--model", f"{folder}/config.json", "--json", *case.options()]
        return int(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["peak_bytes"])


def dry(model: Model, config: Any, case: Case) -> int:
    """Returns the peak of requested bytes of the same steps in a dry run."""
    import vram

    with vram.dry_run(gpu="H200") as run:
        step = program(model, config, case, "cuda")
        for _ in range(STEPS):
            step(lambda _phase: None)
    peak = int(run.peak.requested_bytes)
    del step
    gc.collect()
    return peak


def recorded(folder: Path, halves: list[str]) -> Iterator[tuple[str, Case, dict[str, Any]]]:
    for name, model in MODELS.items():
        path = folder / f"{name}.json.xz"
        if model.half not in halves or not path.exists():
            continue
        with lzma.open(path, "rt") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            if "error" not in row:
                yield name, Case(**{key: row[key] for key in Case.__dataclass_fields__}), row


def percent(value: int, truth: int) -> str:
    return f"{100 * (value / truth - 1):.2f}" if truth else ""


def predict(wanted: argparse.Namespace) -> int:
    columns = [
        "model",
        "half",
        *Case.__dataclass_fields__,
        "requested_bytes",
        "reserved_bytes",
        "plan_bytes",
        "plan_percent",
    ]
    errors: dict[tuple[str, str], list[float]] = {}
    with wanted.csv.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow([*columns, "dry_bytes", "dry_percent"] if wanted.dry else columns)
        for name, case, row in recorded(wanted.out, wanted.half):
            if wanted.only and name not in wanted.only:
                continue
            # Random weights need memory of their own while they are made.
            model, truth = (
                MODELS[name],
                max(v for phase, v in row["phases"].items() if phase != "build") - row["before_bytes"],
            )
            plan = estimated(wanted.program, config_of(model, False), case)
            line = [name, model.half, *asdict(case).values(), truth, row["reserved_bytes"], plan, percent(plan, truth)]
            if wanted.dry:
                try:
                    dried = dry(model, config_of(model, False), case)
                    line += [dried, percent(dried, truth)]
                except Exception as error:
                    line += ["", type(error).__name__]
                    print(f"{name} {case}: {error}"[:1000], file=sys.stderr)
            rows.writerow(line)
            file.flush()
            errors.setdefault((model.half, case.use), []).append(abs(plan / truth - 1) if truth else 0.0)
    for (half, use), values in errors.items():
        worst = sorted(values)[-max(1, round(0.05 * len(values)))]
        print(
            f"{half} {use}: {len(values)} cases, median {100 * statistics.median(values):.2f} %, 95 % {100 * worst:.2f} %"
        )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="run the models on this machine")
    measuring.add_argument("--seconds", type=float, default=170, help="no model starts later than this")
    measuring.add_argument("--jobs", type=int, default=8)
    measuring.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    comparing = commands.add_parser("predict", help="compare what was measured with the plan")
    comparing.add_argument("--program", required=True, help="the vram program")
    comparing.add_argument("--csv", type=Path, required=True)
    comparing.add_argument("--half", nargs="*", default=["choose", "prove"])
    comparing.add_argument("--dry", action="store_true", help="compare dry runs too; needs VRAM_LIBRARY")
    for each in (measuring, comparing):
        each.add_argument("--out", type=Path, required=True, help="the folder of what was measured")
        each.add_argument("--only", nargs="*", default=[], choices=[*MODELS])
    wanted = parser.parse_args()
    return measure(wanted) if wanted.command == "measure" else predict(wanted)


if __name__ == "__main__":
    import os

    os.environ.update(ENVIRONMENT)
    sys.exit(min(main(), 1))

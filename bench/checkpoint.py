"""Checkpoint plans against full checkpointing and √N: peak, step time and gradients. Compiled models: checkpoint_compiled.py.

    python bench/checkpoint.py plan build/plans.pickle              # a machine without a GPU: needs libvram.so and the program
    python bench/checkpoint.py measure build/plans.pickle out.csv   # a GPU
    python bench/checkpoint.py host                                 # what regions that keep products cost the host, for each operator

`--tiny` does the same with models that a CPU runs in seconds; peaks are then 0, because the CPU does not count them.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import pickle
import subprocess
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch
from checkpoint_models import cross_entropy, fixed_lengths, models

if importlib.util.find_spec("vram") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import vram
from vram.planning._region import CheckpointRegion, regions_of
from vram.planning._regions import Regions

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
TIMED, WARM = 5, 2


def autocast(device, wanted):
    return torch.autocast(device, torch.bfloat16) if wanted else nullcontext()


def plan_all(args):
    plans = {}
    for name, (make, batch, casts) in models(args.tiny).items():
        model, sample = make(), batch()
        options = {"loss": cross_entropy, "gpu": "H200", "torch_version": args.torch_version}
        with autocast("cpu", casts):
            full = vram.plan_checkpoints(model, sample, "1TiB", **options).full_peak_bytes
            plans[name] = {}
            for share in SHARES:
                try:
                    plans[name][share] = vram.plan_checkpoints(model, sample, int(full * share), **options)
                    print(f"{name} {share:.0%}: {plans[name][share]}", flush=True)
                except vram.VramError as error:
                    print(f"{name} {share:.0%}: {error}", flush=True)
        Path(args.plans).write_bytes(pickle.dumps(plans))


class Bench:
    def __init__(self, device, path, deadline):
        self.device, self.path, self.deadline, self.rows = device, path, deadline, []
        self.is_gpu = device == "cuda"

    def step(self, model, sample, casts):
        model.zero_grad(set_to_none=True)
        with autocast(self.device, casts):
            loss = cross_entropy(model(sample))
        loss.backward()

    def now(self):
        if self.is_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def run(self, name, method, setting, model, sample, casts, reference, plan=None):
        if time.monotonic() > self.deadline:
            print(f"{name} {method} {setting}: left out, the time is up", flush=True)
            return None
        try:
            for _ in range(WARM):
                self.step(model, sample, casts)
            if self.is_gpu:
                torch.cuda.reset_peak_memory_stats()
            times = []
            for _ in range(TIMED):
                began = self.now()
                self.step(model, sample, casts)
                times.append(self.now() - began)
            peak = torch.cuda.max_memory_allocated() if self.is_gpu else 0
            torch.manual_seed(1)
            self.step(model, sample, casts)
        except Exception as error:  # one failure must not cost the others
            print(f"{name} {method} {setting}: {type(error).__name__}: {error}", flush=True)
            return None
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
        difference = 0.0
        if reference is not None:
            difference = math.sqrt(
                sum(float((g.cpu() - r).double().square().sum()) for g, r in zip(gradients, reference, strict=True))
            )
        self.add(
            name, method, setting, peak, 1000 * sorted(times)[len(times) // 2], plan, difference / norm if norm else 0.0
        )
        return [g.cpu() for g in gradients] if reference is None else None  # not on the GPU, whose peak is measured

    def add(self, name, method, setting, peak, step_ms, plan=None, difference=""):
        row = {
            "model": name, "method": method, "setting": setting,
            "budget_bytes": plan.budget_bytes if plan else "", "predicted_bytes": plan.peak_bytes if plan else "",
            "peak_bytes": peak, "step_ms": round(step_ms, 3), "predicted_added": round(plan.added_share, 4) if plan else "",
            "gradient_difference": difference,
        }  # fmt: skip
        self.rows.append(row)
        with self.path.open("w", newline="") as file:  # each time: what was measured stays if the time ends
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerows(self.rows)
        print(row, flush=True)


def measure(args):
    path, deadline = Path(args.rows), time.monotonic() + args.seconds
    if args.model is None:  # a process for each model, so that none keeps another's memory
        names = args.models.split(",")
        files = [path.with_suffix(f".{name}.csv") for name in names]
        for file, name in zip(files, names, strict=True):
            command = [sys.executable, __file__, "measure", args.plans, str(file), "--model", name]
            command += ["--seconds", str(deadline - time.monotonic()), *(["--tiny"] if args.tiny else [])]
            subprocess.run(command, check=False)
        lines = [file.read_text().splitlines(keepends=True) for file in files if file.exists()]
        path.write_text("".join([*lines[0][:1], *(line for rows in lines for line in rows[1:])]))
        return
    plans = {} if args.plans == "-" else pickle.loads(Path(args.plans).read_bytes())[args.model]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    make, batch, casts = models(args.tiny)[args.model]
    torch.manual_seed(0)
    model, sample = make().to(device), batch().to(device)
    measure_regions(Bench(device, path, deadline), args.model, model, sample, casts, plans)


def measure_regions(bench, name, model, sample, casts, plans):
    reference = bench.run(name, "keep all", "", model, sample, casts, None)
    bench.run(name, "keep all again", "", model, sample, casts, reference)
    measure_fixed(bench, name, model, sample, casts, reference)
    for share, plan in plans.items():
        with_plan = vram.checkpoint(model, plan=plan)
        bench.run(name, "plan", share, model, sample, casts, reference, plan)
        with_plan.remove()


def measure_fixed(bench, name, model, sample, casts, reference):
    for method, length in fixed_lengths(len(model.blocks)).items():
        applied = Regions(model, list(model.blocks), regions_of(len(model.blocks), length))
        bench.run(name, method, "", model, sample, casts, reference)
        applied.remove()


def host(args):
    """Times of the processor, so that other programs matter little; the tensors are so small that kernels do too."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name in ("vit", "resnet"):
        make, batch, casts = models(True)[name]
        model, sample = make(), batch()
        count, found = len(model.blocks), {}
        for what, products in (("every block", False), ("every block, products kept", True)):
            applied = Regions(model, list(model.blocks), tuple(CheckpointRegion(i, i, products) for i in range(count)))
            times = []
            for _ in range(args.repetitions):
                model.zero_grad(set_to_none=True)
                before, began = applied.selective_operators, time.process_time()
                with autocast("cpu", casts):
                    loss = cross_entropy(model(sample))
                loss.backward()
                times.append(time.process_time() - began)
            found[what] = sorted(times)[len(times) // 2], applied.selective_operators - before
            applied.remove()
        (plain, _), (selective, operators) = found.values()
        print(
            f"{name}: {plain * 1e3:.2f} ms, {selective * 1e3:.2f} ms with products kept: {(selective - plain) / operators * 1e6:.1f} µs for each of "
            f"{operators} operators ({operators / count:.0f} of a block, forward and repetition)",
            flush=True,
        )


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    planning = commands.add_parser("plan")
    planning.add_argument("plans")
    planning.add_argument("--torch-version", default="2.11.0")
    planning.set_defaults(call=plan_all)
    measuring = commands.add_parser("measure")
    measuring.add_argument("plans", help="of `plan`; -: without plans of uncompiled models")
    measuring.add_argument("rows")
    measuring.add_argument("--seconds", type=float, default=130)
    measuring.add_argument("--models", default="gpt,vit,resnet")
    measuring.add_argument("--model", help="only this one, in this process")
    measuring.set_defaults(call=measure)
    hosting = commands.add_parser("host")
    hosting.add_argument("--repetitions", type=int, default=30)
    hosting.set_defaults(call=host)
    for command in (planning, measuring):
        command.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    args.call(args)


if __name__ == "__main__":
    main()

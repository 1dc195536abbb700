"""Checkpoint plans against full checkpointing, √N and torch.compile's partitioner: peak, step time and gradients.

    python bench/checkpoint.py plan build/plans.pickle              # a machine without a GPU: needs libvram.so and the program
    python bench/checkpoint.py measure build/plans.pickle out.csv   # a GPU: needs only PyTorch; under 5 minutes on one H200
    python bench/checkpoint.py host                                 # what regions that keep products cost the host, for each operator

`--tiny` does the same with models that a CPU runs in seconds; peaks are then 0, because the CPU does not count them.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import csv
import gc
import math
import pickle
import sys
import time
import warnings
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import vram
from vram.planning._region import CheckpointRegion
from vram.planning._regions import Regions

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
COMPILED_BUDGETS = (1.0, 0.5, 0.2)
TIMED, WARM = 5, 2


class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop, self.heads, self.causal = nn.Dropout(0.1), heads, causal

    def forward(self, x):
        shape = (*x.shape[:2], self.heads, -1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.drop(self.out(mixed.transpose(1, 2).flatten(2)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.second(x)))))


class Gpt(nn.Module):
    def __init__(self, width=1024, layers=16, heads=16, vocabulary=32000, length=1024):
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Attention(width, heads, True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Vit(nn.Module):
    def __init__(self, width=1024, layers=24, heads=16, patch=16, side=224):
        super().__init__()
        self.cut = nn.Conv2d(3, width, patch, patch)
        self.place = nn.Parameter(torch.zeros(1, (side // patch) ** 2, width))
        self.blocks = nn.ModuleList(Attention(width, heads, False) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.cut(images).flatten(2).transpose(1, 2) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        fits = before == 4 * width and stride == 1
        self.short = (
            nn.Identity()
            if fits
            else nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


class ResNet(nn.Module):
    def __init__(self, layers=(3, 4, 6, 3), width=64):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, before = [], width
        for number, count in enumerate(layers):
            for place in range(count):
                blocks.append(Bottleneck(before, width << number, 2 if number and not place else 1))
                before = 4 * (width << number)
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(before, 1000)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def cross_entropy(output):
    logits = output.flatten(0, -2)
    return nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long, device=logits.device))


def models(tiny):
    """Name: how to make the model, how to make a batch, and whether it trains under autocast."""
    if tiny:
        return {
            "gpt": (lambda: Gpt(64, 4, 4, 100, 64), lambda: torch.randint(0, 100, (4, 64)), True),
            "vit": (lambda: Vit(64, 4, 4, 8, 32), lambda: torch.randn(4, 3, 32, 32), True),
            "resnet": (lambda: ResNet((1, 1, 1, 1), 16), lambda: torch.randn(4, 3, 64, 64), False),
        }
    return {
        "gpt": (Gpt, lambda: torch.randint(0, 32000, (16, 1024)), True),
        "vit": (Vit, lambda: torch.randn(64, 3, 224, 224), True),
        "resnet": (ResNet, lambda: torch.randn(128, 3, 224, 224), False),
    }


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
        row = {
            "model": name, "method": method, "setting": setting,
            "budget_bytes": plan.budget_bytes if plan else "", "predicted_bytes": plan.peak_bytes if plan else "",
            "peak_bytes": peak, "step_ms": round(1000 * sorted(times)[len(times) // 2], 3),
            "predicted_added": round(plan.added_share, 4) if plan else "",
            "gradient_difference": difference / norm if norm else 0.0,
        }  # fmt: skip
        self.rows.append(row)
        with self.path.open("w", newline="") as file:  # each time: what was measured stays if the time ends
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerows(self.rows)
        print(row, flush=True)
        return [g.cpu() for g in gradients] if reference is None else None  # not on the GPU, whose peak is measured


def measure(args):
    plans = pickle.loads(Path(args.plans).read_bytes())
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bench = Bench(device, Path(args.rows), time.monotonic() + args.seconds)
    for part in args.parts.split(","):
        for name, (make, batch, casts) in models(args.tiny).items():
            torch.manual_seed(0)
            MEASURED[part](bench, name, make().to(device), batch().to(device), casts, plans[name])
            torch._dynamo.reset()
            gc.collect()  # blocks and their regions know each other


def measure_regions(bench, name, model, sample, casts, plans):
    count = len(model.blocks)
    reference = bench.run(name, "keep all", "", model, sample, casts, None)
    bench.run(name, "keep all again", "", model, sample, casts, reference)
    segment = round(math.sqrt(count))
    others = {
        "every block": tuple(CheckpointRegion(i, i) for i in range(count)),
        "√N": tuple(CheckpointRegion(i, min(i + segment, count) - 1) for i in range(0, count, segment)),
    }
    for method, regions in others.items():
        applied = Regions(model, list(model.blocks), regions)
        bench.run(name, method, "", model, sample, casts, reference)
        applied.remove()
    measure_plans(bench, name, "plan", model, sample, casts, plans, reference)


def measure_compiled_blocks(bench, name, model, sample, casts, plans):
    for block in model.blocks:
        block.forward = torch.compile(block.forward)
    # Dropout of compiled code draws other numbers, so that its gradients are compared with each other.
    reference = bench.run(name, "keep all, compiled blocks", "", model, sample, casts, None)
    measure_plans(bench, name, "plan, compiled blocks", model, sample, casts, plans, reference)


def measure_plans(bench, name, method, model, sample, casts, plans, reference):
    for share, plan in plans.items():
        with_plan = vram.checkpoint(model, plan=plan)
        bench.run(name, method, share, model, sample, casts, reference, plan)
        with_plan.remove()


def measure_partitioner(bench, name, model, sample, casts, _plans):
    import torch._functorch.config as config

    for budget in COMPILED_BUDGETS:
        torch._dynamo.reset()
        with config.patch(activation_memory_budget=budget):
            bench.run(name, "partitioner", budget, torch.compile(model), sample, casts, None)


MEASURED = {
    "regions": measure_regions,
    "compiled": measure_compiled_blocks,
    "partitioner": measure_partitioner,
}


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
    measuring.add_argument("plans")
    measuring.add_argument("rows")
    measuring.add_argument("--seconds", type=float, default=280)
    measuring.add_argument("--parts", default=",".join(MEASURED), help="what to measure (default: %(default)s)")
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

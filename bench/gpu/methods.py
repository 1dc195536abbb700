"""What the usual methods against "CUDA out of memory" free and cost: bytes and milliseconds of each, on one program.

    python bench/gpu/methods.py out.csv        # a GPU with PyTorch, about 2 minutes; a row for each method

Each method runs in a process of its own, one after the other, and all again. The program trains a GPT of 135 million parameters with AdamW, or a
ResNet-50, in fp32. `pool` needs an installed vram.
"""

# mypy: ignore-errors

from __future__ import annotations

import argparse
import csv
import gc
import multiprocessing
import os
import statistics
import time
from contextlib import nullcontext
from functools import partial

WARM, TIMED = 3, 10
FIELDS = (
    "program",
    "method",
    "repetition",
    "allocated_bytes",
    "reserved_bytes",
    "ms",
    "after_bytes",
    "after_reserved_bytes",
    "call_ms",
)


def gpt(checkpoints=False, batch=16):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Gpt(nn.Module):
        def __init__(self, width=768, layers=12, length=512, vocabulary=32000):
            super().__init__()
            self.embed, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(width, 12, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
                for _ in range(layers)
            )
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens):
            x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if checkpoints and self.training else block(x)
            return self.head(x)

    tokens = torch.randint(0, 32000, (batch, 512), device="cuda")
    return Gpt().cuda(), tokens, tokens


def resnet(batch=64, channels_last=False):
    import torch
    import torchvision

    memory = torch.channels_last if channels_last else torch.contiguous_format
    images = torch.randn(batch, 3, 224, 224, device="cuda").to(memory_format=memory)
    model = torchvision.models.resnet50().cuda().to(memory_format=memory)
    return model, images, torch.zeros(batch, dtype=torch.long, device="cuda")


def step(model, inputs, targets, optimizer, casts=False, sets_to_none=True, cleans=None):
    import torch

    with torch.autocast("cuda", torch.bfloat16) if casts else nullcontext():
        output = model(inputs)
        loss = torch.nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=sets_to_none)
    if cleans is not None:
        cleans()


def now():
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def counters():
    import torch

    return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()


def peaks(times):
    """The columns of a loop: its peaks, and the median of these seconds."""
    import torch

    return {
        "allocated_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved(),
        "ms": 1e3 * statistics.median(times),
    }  # fmt: skip


def train(make, optimizer=None, matmul=None, accumulates=1, **options):
    """The peak and the time of training steps."""
    import torch

    if matmul:
        torch.set_float32_matmul_precision(matmul)
    model, inputs, targets = make()
    optimizer = torch.optim.AdamW(model.parameters(), **(optimizer or {"foreach": True}))
    times = []
    for number in range(WARM + TIMED):
        if number == WARM:
            torch.cuda.reset_peak_memory_stats()
        began = now()
        for part in range(accumulates):
            rows = slice(part * len(inputs) // accumulates, (part + 1) * len(inputs) // accumulates)
            last = part == accumulates - 1
            step(model, inputs[rows], targets[rows], optimizer if last else _Waiting(), **options)
        times.append(now() - began)
    after, after_reserved = counters()
    return {**peaks(times[WARM:]), "after_bytes": after, "after_reserved_bytes": after_reserved}


class _Waiting:
    """Instead of the optimizer, while gradients accumulate."""

    def step(self):
        pass

    def zero_grad(self, set_to_none=True):
        pass


def clean(action):
    """What a call gives back after a phase that needed much: a trained model, of which only the weights are kept."""
    import torch

    model, inputs, targets = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(2):
        step(model, inputs, targets, optimizer)
    output = model(inputs)  # a forward pass whose result, and so its graph, is still named
    cycle = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda")]
    cycle.append(cycle)
    del cycle
    before = now() and counters()
    began = now()
    if action == "del":
        del output
    elif action == "gc.collect":
        gc.collect()
    elif action == "empty_cache":
        torch.cuda.empty_cache()
    elif action == "del, gc.collect, empty_cache":
        del output
        gc.collect()
        torch.cuda.empty_cache()
    elif action == "zero_grad":
        optimizer.zero_grad(set_to_none=True)
    took = now() - began
    after = counters()
    return {
        "allocated_bytes": before[0], "reserved_bytes": before[1], "after_bytes": after[0], "after_reserved_bytes": after[1],
        "call_ms": 1e3 * took,
    }  # fmt: skip


def infer(context):
    import torch

    model, inputs, _ = gpt()
    model.eval()
    times = []
    with context():
        for number in range(WARM + TIMED):
            if number == WARM:
                torch.cuda.reset_peak_memory_stats()
            began = now()
            model(inputs)
            times.append(now() - began)
    return peaks(times[WARM:])


def varied():
    """Steps of changing length, which fragment the allocator's segments."""
    import random

    import torch

    model, inputs, targets = gpt()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    lengths = random.Random(0)
    times = []
    for _ in range(40):
        length = lengths.randrange(64, 513)
        began = now()
        step(model, inputs[:, :length], targets[:, :length], optimizer)
        times.append(now() - began)
    return peaks(times[10:])


def pooled():
    import vram

    vram.enable()
    return varied()


def method_table():
    import torch

    clean_all = lambda: (gc.collect(), torch.cuda.empty_cache())  # noqa: E731
    return {
        ("gpt", "plain"): partial(train, gpt),
        ("gpt", "autocast bf16"): partial(train, gpt, casts=True),
        ("gpt", "TF32 matrix products"): partial(train, gpt, matmul="high"),
        ("gpt", "checkpointing"): partial(train, partial(gpt, checkpoints=True)),
        ("gpt", "half the batch"): partial(train, partial(gpt, batch=8)),
        ("gpt", "accumulate 2 halves"): partial(train, gpt, accumulates=2),
        ("gpt", "fused AdamW"): partial(train, gpt, optimizer={"fused": True}),
        ("gpt", "AdamW without foreach"): partial(train, gpt, optimizer={"foreach": False}),
        ("gpt", "set_to_none=False"): partial(train, gpt, sets_to_none=False),
        ("gpt", "empty_cache each step"): partial(train, gpt, cleans=torch.cuda.empty_cache),
        ("gpt", "gc.collect each step"): partial(train, gpt, cleans=gc.collect),
        ("gpt", "both each step"): partial(train, gpt, cleans=clean_all),
        ("resnet", "plain"): partial(train, resnet),
        ("resnet", "channels_last"): partial(train, partial(resnet, channels_last=True)),
        ("resnet", "autocast bf16, channels_last"): partial(train, partial(resnet, channels_last=True), casts=True),
        ("gpt, varied lengths", "plain"): varied,
        ("gpt, varied lengths", "expandable segments"): varied,
        ("gpt, varied lengths", "pool"): pooled,
        ("gpt, inference", "plain"): partial(infer, nullcontext),
        ("gpt, inference", "no_grad"): partial(infer, torch.no_grad),
        ("gpt, inference", "inference_mode"): partial(infer, torch.inference_mode),
        **{
            ("after training", action): partial(clean, action)
            for action in ("del", "gc.collect", "empty_cache", "del, gc.collect, empty_cache", "zero_grad")
        },
    }


def run(key, results):
    if key[1] == "expandable segments":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    results.put(method_table()[key]())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows")
    parser.add_argument("--repetitions", type=int, default=3)
    args = parser.parse_args()
    import torchvision  # noqa: F401  once, before the processes fork; CUDA begins in each

    fork, rows = multiprocessing.get_context("fork"), []
    for repetition in range(args.repetitions):
        for key in method_table():
            results = fork.Queue()
            process = fork.Process(target=run, args=(key, results))
            process.start()
            process.join(60)
            if process.exitcode:
                print(key, "failed", flush=True)
                continue
            rows.append(dict(zip(("program", "method"), key, strict=True)) | {"repetition": repetition} | results.get())
            print(rows[-1], flush=True)
            with open(args.rows, "w", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()

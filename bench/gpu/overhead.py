"""Measures what vram's recorders and vram.watch() cost a program on an NVIDIA GPU, in pairs; prints Markdown.

    python overhead.py [--rounds N] [--seconds S] [PROGRAM ...]

Programs: `generate` computes one token after another with a small transformer, without gradients, and `train` trains it on a small
batch; the host limits both. `train_large` trains on a batch that the GPU takes longer for. Each runs in a process of its own.

A pair is two measurements that follow each other: the program with a recorder, and without (or with the recorder that the row
names). Rounds go through all pairs in turn. Each measurement begins after four steps under the recorder, since vram.watch() names an
optimizer's states in its first three, lasts S seconds and ends when the GPU is done. The quotient of a row is the median over its pairs, with quartiles.

A tracker that was attached to PyTorch's allocator cannot be detached: PyTorch continues to make an entry for each of its events.
PyTorch's own history is therefore measured first, without a tracker, and the row "tracker alone" compares what follows a
recording with what preceded the first one. The first and the last measurements are of the same program, so it includes drift.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# What is compared with what, before and after the first recording of vram.
FIRST = [("torch", "none"), ("torch, Python stacks", "none")]
THEN = [
    ("flight recorder", "none"),
    ("flight recorder, Python stacks", "none"),
    ("record", "none"),
    ("record, Python stacks", "none"),
    ("record, watch", "record"),
    ("watch alone", "none"),
]
WARM_STEPS = 4
# Width, layers, sequences, tokens in each.
SIZES = {"generate": (256, 8, 4, 64), "train": (256, 8, 4, 64), "train_large": (2048, 8, 16, 512)}


def make_model(torch: Any, width: int, layers: int, device: str = "cuda") -> Any:
    """A transformer of modules that are four levels deep, as libraries of models write them."""
    nn, functional = torch.nn, torch.nn.functional

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

        def forward(self, x: Any) -> Any:
            query, key, value = (
                part(x).unflatten(-1, (8, -1)).transpose(1, 2) for part in (self.query, self.key, self.value)
            )
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.out(mixed.transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
            self.act, self.down = nn.SiLU(), nn.Linear(3 * width, width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down(self.act(self.gate(x)) * self.up(x))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.attention, self.norm2, self.mlp = Norm(), Attention(), Norm(), Mlp()

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(8000, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = Norm(), nn.Linear(width, 8000, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))

    return Model().to(device)


def make_step(torch: Any, program: str) -> tuple[Callable[[], None], Any, Any]:
    """Returns a step of the program, its model and its optimizer."""
    width, layers, sequences, length = SIZES[program]
    torch.manual_seed(0)
    model = make_model(torch, width, layers)
    tokens = torch.randint(0, 8000, (sequences, length), device="cuda")
    if program == "generate":

        def generate() -> None:
            with torch.no_grad():
                model(tokens)[:, -1].argmax(-1)

        return generate, model, None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def train() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=program == "train_large"):
            output = model(tokens)
            loss = torch.nn.functional.cross_entropy(output.flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return train, model, optimizer


def enter(torch: Any, way: str, folder: str, stack: ExitStack, model: Any, optimizer: Any) -> Any:
    """Begins to record; returns the recording, if it is vram.record()'s."""
    stacks = "python" if "Python" in way else None
    if way.startswith("torch"):
        history = torch.cuda.memory._record_memory_history
        history(context="all" if stacks else None, stacks="python", max_entries=100_000)
        stack.callback(history, enabled=None)
    if way.startswith("flight"):
        import vram

        stack.enter_context(vram.flight_recorder(folder, stacks=stacks))
    recording = None
    if way.startswith("record"):
        import vram

        recording = stack.enter_context(vram.record(Path(folder) / "run.vtrace", stacks=stacks))
    if "watch" in way:
        import vram

        stack.enter_context(vram.watch(model, optimizer))
    return recording


class Measurement:
    """A program, measured under ways of recording."""

    def __init__(self, torch: Any, program: str, seconds: float) -> None:
        self.torch = torch
        self.seconds = seconds
        self.step, self.model, self.optimizer = make_step(torch, program)
        self.lost = 0
        for _ in range(20):
            self.step()
        self.steps = 1
        while self.timed(self.steps) * self.steps < seconds:
            self.steps *= 2
        self.requests = self.requests_of_step()

    def requests_of_step(self) -> int:
        before = self.torch.cuda.memory_stats()["allocation.all.allocated"]
        self.step()
        return int(self.torch.cuda.memory_stats()["allocation.all.allocated"] - before)

    def timed(self, steps: int) -> float:
        """Returns the seconds that a step takes."""
        self.torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.torch.cuda.synchronize()
        return (time.perf_counter() - before) / steps

    def under(self, way: str) -> float:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            recording = enter(self.torch, way, folder, stack, self.model, self.optimizer)
            for _ in range(WARM_STEPS):
                self.step()
            found = self.timed(self.steps)
            if recording is not None:
                self.lost += recording.lost
            return found


def child(program: str, rounds: int, seconds: float) -> None:
    import torch

    measurement = Measurement(torch, program, seconds)
    found: dict[str, list[tuple[float, float]]] = {}
    for part in (FIRST, THEN):
        for _ in range(rounds):
            for way, base in part:
                pair = measurement.under(base), measurement.under(way)
                found.setdefault(f"{way} ÷ {base}", []).append(pair)
    untouched = [pair[0] for way, base in FIRST for pair in found[f"{way} ÷ {base}"]]
    tracked = [pair[0] for way, base in THEN if base == "none" for pair in found[f"{way} ÷ {base}"]]
    found["tracker alone ÷ none"] = [(statistics.median(untouched), statistics.median(tracked))]
    figures = {"requests": measurement.requests, "lost": measurement.lost, "pairs": found}
    print(json.dumps(figures), flush=True)


def rows(program: str, figures: dict[str, Any]) -> list[str]:
    made = []
    for name, pairs in figures["pairs"].items():
        quotients = [after / before for before, after in pairs]
        low, middle, high = statistics.quantiles(quotients, n=4) if len(pairs) > 1 else quotients * 3
        base = statistics.median(before for before, _ in pairs)
        more = statistics.median(after - before for before, after in pairs) / figures["requests"]
        made.append(
            f"| {program} | {name} | {1e3 * base:.2f} | {1e6 * base / figures['requests']:.1f} | {middle:.3f} "
            f"| {low:.3f} to {high:.3f} | {1e9 * more:.0f} |"
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=[*SIZES], metavar="PROGRAM")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.12)
    parser.add_argument("--child", choices=[*SIZES], help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted.child, wanted.rounds, wanted.seconds)
        return
    print("| program | recorded by | ms a step | us a request | quotient | quartiles | more, ns a request |")
    print("|---|---|---|---|---|---|---|")
    for program in wanted.programs:
        words = [sys.executable, __file__, "--child", program, "--rounds", str(wanted.rounds)]
        words += ["--seconds", str(wanted.seconds)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=500)
        if done.returncode != 0:
            sys.exit(f"{program}: {done.stderr[-3000:]}")
        figures = json.loads(done.stdout.splitlines()[-1])
        print("\n".join(rows(program, figures)), flush=True)
        print(f"{program}: {figures['requests']} requests a step, {figures['lost']} records lost", file=sys.stderr)


if __name__ == "__main__":
    main()

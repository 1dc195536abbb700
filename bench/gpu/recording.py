"""What recording costs on an NVIDIA GPU, in the loop where it shows most: generation, bound by the host; prints Markdown.

    python recording.py [--rounds N]

A small Llama generates tokens, each of which is a few hundred short operations on the GPU: what a request for memory costs
is not hidden behind kernels. Each way of recording runs in a process of its own, so often, in turn with the others; a
process's figure is the median of its generations, the table's the smallest over the rounds. The second table has what a
request and a free of 4 KiB cost by themselves (torch.empty, then del; the median of 9 measurements).
vram and PyTorch are those installed; about 8 s for each process.
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

# The allocator, and who records.
WAYS = [
    ("native", "nobody"),
    ("native", "torch"),
    ("native", "torch, Python stacks"),
    ("native", "torch, all stacks"),
    ("native", "vram"),
    ("native", "vram, Python stacks"),
    ("pool", "nobody"),
    ("pool", "vram"),
    ("pool", "vram, Python stacks"),
    ("pool", "vram, watch"),
]
GENERATIONS, TOKENS, PAIRS = 14, 48, 20_000


def begin(torch: Any, recorder: str, folder: str, stack: ExitStack, model: Any) -> Any:
    """The recording, where it is vram's."""
    if recorder.startswith("torch"):
        kinds = {"torch": None, "torch, Python stacks": "python", "torch, all stacks": "all"}
        stacks = kinds[recorder]
        torch.cuda.memory._record_memory_history(context=None if stacks is None else "all", stacks=stacks or "python")
        return None
    if recorder == "nobody":
        return None
    import vram

    stacks = "python" if "Python" in recorder else None
    recording = stack.enter_context(vram.record(Path(folder) / "run.vtrace", stacks=stacks))
    if recorder.endswith("watch"):
        stack.enter_context(vram.watch(model))
    return recording


def small_llama(torch: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    with torch.device("cuda"):
        return LlamaForCausalLM(
            LlamaConfig(
                hidden_size=512,
                num_hidden_layers=8,
                num_attention_heads=8,
                num_key_value_heads=4,
                intermediate_size=1408,
                vocab_size=8000,
            )
        ).eval()


def generation(torch: Any, model: Any) -> Callable[[], None]:
    prompt = torch.randint(0, 8000, (4, 64), device="cuda")

    def generate() -> None:
        with torch.no_grad():
            model.generate(
                input_ids=prompt, max_new_tokens=TOKENS, min_new_tokens=TOKENS, do_sample=False, pad_token_id=0
            )
        torch.cuda.synchronize()

    return generate


def pairs(torch: Any) -> float:
    """Nanoseconds for a request and a free."""
    empty, size, device = torch.empty, 1024, torch.device("cuda")
    took = []
    for _ in range(9):
        before = time.perf_counter_ns()
        for _ in range(PAIRS):
            block = empty(size, device=device)
            del block
        took.append((time.perf_counter_ns() - before) / PAIRS)
    return statistics.median(took)


def child(allocator: str, recorder: str) -> None:
    import torch

    if allocator == "pool":
        import vram

        vram.enable()
    torch.cuda.init()
    model = small_llama(torch)
    generate = generation(torch, model)
    for _ in range(3):
        generate()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        recording = begin(torch, recorder, folder, stack, model)
        took = []
        for _ in range(GENERATIONS):
            before = time.perf_counter()
            generate()
            took.append(1e3 * (time.perf_counter() - before))
        events = recording.events if recording is not None else 0
        pair_ns = pairs(torch)
        lost = recording.lost if recording is not None else 0
    figures = {"generation_ms": statistics.median(took), "pair_ns": pair_ns, "events": events, "lost": lost}
    print(json.dumps(figures), flush=True)


def measure(rounds: int) -> dict[tuple[str, str], list[dict[str, float]]]:
    found: dict[tuple[str, str], list[dict[str, float]]] = {way: [] for way in WAYS}
    for i in range(rounds):
        for way in WAYS if i % 2 == 0 else reversed(WAYS):
            words = [sys.executable, __file__, "--child", *way]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=200)
            if done.returncode != 0:
                print(f"{' / '.join(way)}: {done.stderr[-800:]}", file=sys.stderr)
                continue
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
            print(f"{way}: {found[way][-1]}", file=sys.stderr, flush=True)
    return found


def report(found: dict[tuple[str, str], list[dict[str, float]]]) -> None:
    print(
        "| allocator | recorded by | generation, ms | ÷ not recorded | request + free, ns | more, ns an event | lost |"
    )
    print("|---|---|---|---|---|---|---|")
    for (allocator, recorder), runs in found.items():
        plain = found[(allocator, "nobody")]
        if not runs or not plain:
            continue
        best, base = (min(run["generation_ms"] for run in those) for those in (runs, plain))
        pair, base_pair = (min(run["pair_ns"] for run in those) for those in (runs, plain))
        lost = int(max(run["lost"] for run in runs))
        print(
            f"| {allocator} | {recorder} | {best:.2f} | {best / base:.3f} | {pair:.0f} | {(pair - base_pair) / 2:.0f} "
            f"| {lost} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2, metavar=("ALLOCATOR", "RECORDER"), help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(*wanted.child)
    else:
        report(measure(wanted.rounds))


if __name__ == "__main__":
    main()

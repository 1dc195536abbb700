"""Measures what recording costs on an NVIDIA GPU, in the most sensitive loop: generation, bound by the host; prints Markdown.

    python recording.py [--cycles N]

A small Llama generates tokens, each of which takes a few hundred short operations on the GPU, so kernels do not hide the cost of
requests for memory. For each allocator, one process generates N times under each way of recording in turn; the figures of the
first table are medians. They include the cost of a single request and free of 4 KiB (torch.empty, then del), and therefore of an
event. Each cycle begins without a recording. A tracker that was attached to PyTorch's allocator stays attached, so PyTorch still
creates its own events then. The installed versions of vram and PyTorch are measured; this takes about a minute.
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

# The ways of recording, by allocator.
WAYS = {
    "native": [
        "not recorded",
        "torch",
        "torch, Python stacks",
        "torch, all stacks",
        "vram",
        "vram, Python stacks",
        "flight",
        "flight, Python stacks",
    ],
    "pool": [
        "not recorded",
        "vram",
        "vram, Python stacks",
        "vram, watch",
        "vram, watch(depth=2)",
        "flight",
        "flight, Python stacks",
    ],
}
TOKENS, PAIRS = 32, 10_000
Figures = dict[str, float]


def begin(torch: Any, recorder: str, folder: str, stack: ExitStack, model: Any) -> Any:
    """Returns the recording if it is vram's."""
    if recorder == "not recorded":
        return None
    if recorder.startswith("torch"):
        stacks = {"torch": None, "torch, Python stacks": "python", "torch, all stacks": "all"}[recorder]
        history = torch.cuda.memory._record_memory_history
        history(context=None if stacks is None else "all", stacks=stacks or "python")
        stack.callback(history, enabled=None)
        return None
    import vram

    stacks = "python" if "Python" in recorder else None
    if recorder.startswith("flight"):
        stack.enter_context(vram.flight_recorder(folder, stacks=stacks))
        return None
    recording = stack.enter_context(vram.record(Path(folder) / "run.vtrace", stacks=stacks))
    if "watch" in recorder:
        stack.enter_context(vram.watch(model, depth=2 if "depth" in recorder else None))
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


def pair_ns(torch: Any) -> float:
    """Returns the time of a request and a free."""
    empty, size, device = torch.empty, 1024, torch.device("cuda")
    before = time.perf_counter_ns()
    for _ in range(PAIRS):
        block = empty(size, device=device)
        del block
    return (time.perf_counter_ns() - before) / PAIRS


def once(torch: Any, model: Any, generate: Callable[[], None], recorder: str) -> Figures:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        recording = begin(torch, recorder, folder, stack, model)
        generate()  # the first operations of each kind cost more
        before = time.perf_counter()
        generate()
        took = {"generation_ms": 1e3 * (time.perf_counter() - before)}
        events = recording.events if recording is not None else 0
        took["pair_ns"] = pair_ns(torch)
        if recording is not None:
            took |= {"events": events / 2, "lost": recording.lost}
        return took


def child(allocator: str, cycles: int) -> None:
    import torch

    if allocator == "pool":
        import vram

        vram.enable()
    torch.cuda.init()
    model = small_llama(torch)
    generate = generation(torch, model)
    for _ in range(3):
        generate()
    found: dict[str, list[Figures]] = {way: [] for way in WAYS[allocator]}
    for _ in range(cycles):
        for way, figures in found.items():
            figures.append(once(torch, model, generate, way))
    print(json.dumps(found), flush=True)


def row(allocator: str, way: str, found: dict[str, list[Figures]]) -> str:
    def median(key: str, of: str) -> float:
        return statistics.median(figures.get(key, 0) for figures in found[of])

    took, pair = median("generation_ms", way), median("pair_ns", way)
    more = (pair - median("pair_ns", "not recorded")) / 2
    return (
        f"| {allocator} | {way} | {took:.1f} | {took / median('generation_ms', 'not recorded'):.3f} | {pair:.0f} | {more:.0f} "
        f"| {median('events', way):.0f} | {median('lost', way):.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=7)
    parser.add_argument("--child", choices=[*WAYS], help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.child:
        child(wanted.child, wanted.cycles)
        return
    print(
        "| allocator | recorded by | generation, ms | ÷ not recorded | request + free, ns | added, ns per event | events | lost |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for allocator, ways in WAYS.items():
        words = [sys.executable, __file__, "--child", allocator, "--cycles", str(wanted.cycles)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=500)
        if done.returncode != 0:
            sys.exit(f"{allocator}: {done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        for way in ways:
            print(row(allocator, way, found), flush=True)


if __name__ == "__main__":
    main()

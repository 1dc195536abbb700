"""Measures how much of the device's used memory a recording can name, on an NVIDIA GPU; prints Markdown.

    python owners.py [--vram PROGRAM] [--steps N] [--keep DIR]

A training program with a convolution, matrix products, a linear solver, a CUDA graph and a communicator of one rank (NCCL) is
recorded twice, each time in a process of its own: under `vram run --record`, which also sees the driver calls of libraries, and
with `vram.record()`, which does not. A table shows the report's `rest`: the device's used memory by owner. The command fails if a
table does not add up to the byte, or if 1 % of the device or more has no name. The installed versions of vram and PyTorch are
measured; this takes about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

MAX_UNNAMED_SHARE = 0.01
MIB = 1 << 20
SAMPLED_S = 2.5  # the device is sampled once a second
Rest = dict[str, Any]


def losses(steps: int) -> Iterator[Any]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2), nn.ReLU(), nn.Conv2d(64, 128, 3, 2), nn.AdaptiveAvgPool2d(8), nn.Flatten()
    )
    head = nn.Sequential(nn.Linear(8192, 8192), nn.GELU(), nn.Linear(8192, 1024))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(body, head).cuda(), device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, capturable=True)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = model(torch.randn(64, 3, 224, 224, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        yield loss


def use_libraries() -> Any:
    """Returns what has to stay alive: a captured graph with its tensors."""
    import torch

    matrix = torch.randn(2048, 2048, device="cuda")
    torch.linalg.solve(matrix, matrix)
    inputs = torch.randn(4096, 4096, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = inputs @ inputs
    graph.replay()
    return graph, inputs, outputs


def child(recording: str, steps: int) -> None:
    import torch.distributed as dist

    with ExitStack() as stack:
        if recording:
            import vram

            stack.enter_context(vram.record(recording))
        import torch

        dist.init_process_group("nccl", rank=0, world_size=1)
        kept = use_libraries()
        for loss in losses(steps):
            loss.item()
        torch.cuda.synchronize()
        time.sleep(SAMPLED_S)
        del kept
        dist.destroy_process_group()


def recorded_rest(way: str, words: argparse.Namespace, folder: Path) -> Rest:
    recording = folder / f"{way}.vtrace"
    own = [sys.executable, __file__, "--steps", str(words.steps), "--child"]
    command = (
        [words.vram, "run", "--record", str(recording), "--", *own, ""] if way == "run" else [*own, str(recording)]
    )
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    report = subprocess.run(
        [words.vram, "report", "--json", str(recording)], capture_output=True, check=False, timeout=300
    )
    document = json.loads(report.stdout)
    found = [device["rest"] for device in document["devices"] if device.get("rest")]
    if not found:
        sys.exit(f"{recording}: the recording has no samples of the device")
    rest: Rest = found[0]
    return rest


def check(way: str, rest: Rest) -> list[str]:
    """Returns what is wrong with a table."""
    wrong = []
    named = sum(item["bytes"] for item in rest["items"])
    if named + rest["unnamed_bytes"] != rest["used_bytes"]:
        wrong.append(
            f"{way}: {named} named + {rest['unnamed_bytes']} unnamed bytes are not the {rest['used_bytes']} used"
        )
    if rest["total_bytes"] is None:
        wrong.append(f"{way}: the driver does not report the device's memory")
    elif abs(rest["unnamed_bytes"]) >= MAX_UNNAMED_SHARE * rest["total_bytes"]:
        wrong.append(
            f"{way}: {rest['unnamed_bytes']} bytes have no name, {MAX_UNNAMED_SHARE:.0%} of the device or more"
        )
    return wrong


def rows(way: str, rest: Rest) -> Iterator[str]:
    for item in rest["items"]:
        yield f"| {way} | {item['kind']} | {item['name']} | {item['bytes'] / MIB:,.1f} | {item['basis']} |"
    total = rest["total_bytes"]
    share = f"{rest['unnamed_bytes'] / total:.2%} of the device" if total else ""
    yield f"| {way} | unnamed | | {rest['unnamed_bytes'] / MIB:,.1f} | {share} |"
    yield f"| {way} | used | | {rest['used_bytes'] / MIB:,.1f} | |"


def machine() -> str:
    import torch

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60).stdout
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return f"{driver.splitlines()[0]}; PyTorch {torch.__version__}; NCCL {nccl}; Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vram", default="vram", help="the program")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    parser.add_argument("--child", metavar="RECORDING", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child is not None:
        child(words.child, words.steps)
        return
    print(machine(), flush=True)
    print("| recorded by | kind | name | MiB | basis |\n|---|---|---|---|---|")
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for way in ("run", "record"):
            rest = recorded_rest(way, words, words.keep or Path(scratch))
            print("\n".join(rows(way, rest)), flush=True)
            wrong += check(way, rest)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

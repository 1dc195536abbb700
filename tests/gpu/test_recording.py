"""What vram.record() writes of real training is what PyTorch's counters say, whichever allocator serves it.

Each recording is made by a program of its own, which begins it before CUDA is there: PyTorch's peaks are then those of
the recording.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

PROGRAM = """\
import json
import sys

import torch

import vram

path, allocator, stacks = sys.argv[1:4]
if allocator == "pool":
    vram.enable()
recording = vram.record(path, stacks=stacks if stacks != "none" else None)
torch.manual_seed(0)
leaked = []


def keep(x):
    leaked.append(torch.full((5_000_000,), 1.0, device="cuda"))  # the planted leak


model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
side = torch.cuda.Stream()
for step in range(12):
    vram.step()
    x = torch.randn(512 + 32 * (step % 5), 1024, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.cuda.stream(side):
        y = x * 2
    x.record_stream(side)
    del x, y, loss
    keep(step)
    if step == 6:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    if step == 8:  # memory of a graph is the native allocator's, also under the pool
        static = torch.ones(1 << 20, device="cuda")
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = (static * 3).cumsum(0)
        graph.replay()
torch.cuda.synchronize()
torch.cuda.memory_snapshot()  # PyTorch's own, and its history, work beside the recording
recording.stop()
stats = torch.cuda.memory_stats()
print(json.dumps({
    "lost": recording.lost,
    "name": torch.cuda.get_allocator_backend(),
    **{key: stats[f"{key}_bytes.all.peak"] for key in ("requested", "allocated", "reserved")},
    "line": 1 + open(__file__).read().split("# the planted leak")[0].count(chr(10)),
}))
"""


def record(tmp_path: Path, allocator: str, stacks: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What PyTorch counted, and what the report says of the recording's only device."""
    import vram

    program, path = tmp_path / "train.py", tmp_path / "run.vtrace"
    program.write_text(PROGRAM)
    settings = "expandable_segments:True" if allocator == "expandable" else ""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings, "CUDA_VISIBLE_DEVICES": "0"}
    words: list[str | Path] = [sys.executable, program, path, allocator, stacks]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    told = subprocess.run([vram.program(), "report", "--json", path], capture_output=True, text=True, check=False)
    assert told.stdout, told.stderr
    (device,) = json.loads(told.stdout)["devices"]
    return json.loads(done.stdout.splitlines()[-1]), device


@pytest.mark.parametrize("stacks", ["none", "python"])
@pytest.mark.parametrize("allocator", ["native", "expandable"])
def test_a_recording_of_pytorchs_allocator_is_exact(tmp_path: Path, allocator: str, stacks: str) -> None:
    counted, device = record(tmp_path, allocator, stacks)
    assert counted["lost"] == 0
    assert counted["name"] == "native"
    assert device["confidence"]["word"] == "exact", device["confidence"]
    for figure in ("requested", "allocated", "reserved"):
        assert device["peak"][f"{figure}_bytes"] == counted[figure], figure


# Peaks of both allocators at different moments: PyTorch's figure adds them up, the recording has the true sum.
def test_a_recording_of_the_pool_has_the_native_allocators_part(tmp_path: Path) -> None:
    counted, device = record(tmp_path, "pool", "python")
    assert counted["lost"] == 0
    assert device["confidence"]["mismatches"] == 0, device["confidence"]
    graph_bytes = 32 << 20
    for figure in ("requested", "allocated", "reserved"):
        recorded = device["peak"][f"{figure}_bytes"]
        assert counted[figure] - graph_bytes <= recorded <= counted[figure], figure


@pytest.mark.parametrize("allocator", ["native", "expandable", "pool"])
def test_a_planted_leak_is_named_by_its_line(tmp_path: Path, allocator: str) -> None:
    counted, device = record(tmp_path, allocator, "python")
    largest = max(device["holders"], key=lambda holder: holder["requested_bytes"])
    assert largest["name"].endswith(f"train.py:{counted['line']} keep")


def test_a_history_that_the_program_keeps_is_untouched(tmp_path: Path) -> None:
    import vram

    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch, vram\n"
        "torch.cuda.memory._record_memory_history(max_entries=1000)\n"
        "recording = vram.record(sys.argv[1], stacks='python')\n"
        "x = torch.ones(1 << 20, device='cuda')\n"
        "entries = torch.cuda.memory._snapshot()['device_traces'][0]\n"
        "recording.stop()\n"
        "assert any(entry['action'] == 'alloc' and entry['frames'] for entry in entries), entries\n"
        "assert torch.cuda.memory._snapshot()['segments']\n"
    )
    path = tmp_path / "run.vtrace"
    done = subprocess.run([sys.executable, program, path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told = subprocess.run([vram.program(), "report", "--json", path], capture_output=True, text=True, check=False)
    (device,) = json.loads(told.stdout)["devices"]
    assert device["confidence"]["word"] == "exact"
    assert "program.py" in json.dumps(device["holders"])

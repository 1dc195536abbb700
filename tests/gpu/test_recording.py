"""vram.record() of real training agrees with PyTorch's counters, with either allocator.

Each recording is made by its own program, which starts it before CUDA is initialized, so PyTorch's peaks are those of
the recording.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

BEGIN = """\
import json
import sys

import torch

import vram

path, allocator, stacks = sys.argv[1:4]
if allocator == "pool":
    vram.enable()
recording = vram.record(path, stacks=stacks if stacks != "none" else None)
torch.manual_seed(0)
"""
TRAINING = """\
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
"""
END = """\
torch.cuda.synchronize()
torch.cuda.memory_snapshot()  # PyTorch's snapshots and history work during the recording
recording.stop()
stats = torch.cuda.memory_stats()
print(json.dumps({
    "lost": recording.lost,
    "name": torch.cuda.get_allocator_backend(),
    **{key: stats[f"{key}_bytes.all.peak"] for key in ("requested", "allocated", "active", "reserved")},
    "line": 1 + open(__file__).read().split("# the planted leak")[0].count(chr(10)),
}))
"""

GRAPHS = """\
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def train(x):
    optimizer.zero_grad(set_to_none=True)
    model(x).square().mean().backward()
    optimizer.step()


inputs = [torch.randn(n, 512, device="cuda") for n in (64, 512, 4096)]
graphs = []
for x in inputs:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train(x)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graphs.append(torch.cuda.CUDAGraph())
    with torch.cuda.graph(graphs[-1]):
        train(x)
for step in range(12):
    vram.step()
    inputs[step % 3].normal_()
    graphs[step % 3].replay()
    between = torch.randn(1000 * (step % 5 + 1), 1000, device="cuda")
"""

OFFLOAD = """\
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(6)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    vram.step()
    x = torch.randn(700 + 300 * (step % 3), 1024, device="cuda")
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

STREAMS = """\
sides = [torch.cuda.Stream() for _ in range(2)]
models = []
for width, side in zip((512, 1024), sides):
    with torch.cuda.stream(side):
        model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(4)]).cuda()
        models.append((model, torch.optim.SGD(model.parameters(), 0.01), width))
for step in range(12):
    vram.step()
    losses = []
    for (model, optimizer, width), side in zip(models, sides):
        with torch.cuda.stream(side):
            x = torch.randn(1000 + 500 * (step % 4), width, device="cuda")
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss = loss.detach()
        loss.record_stream(torch.cuda.current_stream())
        losses.append(loss)
    for side in sides:
        torch.cuda.current_stream().wait_stream(side)
    total = torch.stack(losses).sum()
"""


def record(tmp_path: Path, allocator: str, stacks: str, body: str = TRAINING) -> tuple[dict[str, Any], dict[str, Any]]:
    """What PyTorch counted, and what the report says of the recording's only device, all holders listed."""
    import vram

    program, path = tmp_path / "train.py", tmp_path / "run.vtrace"
    program.write_text(BEGIN + body + END)
    settings = "expandable_segments:True" if allocator == "expandable" else ""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": settings, "CUDA_VISIBLE_DEVICES": "0"}
    words: list[str | Path] = [sys.executable, program, path, allocator, stacks]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    report: list[str | Path] = [vram.program(), "report", "--json", "--top", "0", path]
    reported = subprocess.run(report, capture_output=True, text=True, check=False, timeout=120)
    assert reported.stdout, reported.stderr
    (device,) = json.loads(reported.stdout)["devices"]
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


# Memory of graphs is the native allocator's under the pool too, so that PyTorch's peaks are sums there.
@pytest.mark.parametrize(
    ("body", "allocator"),
    [
        pytest.param(body, allocator, id=f"{name}-{allocator}")
        for name, body in (("graphs", GRAPHS), ("offload", OFFLOAD), ("streams", STREAMS))
        for allocator in ("native", "expandable", "pool")
        if (name, allocator) != ("graphs", "pool")
    ],
)
def test_peaks_of_other_kinds_of_programs_are_pytorchs(tmp_path: Path, body: str, allocator: str) -> None:
    counted, device = record(tmp_path, allocator, "none", body)
    assert counted["lost"] == 0
    assert device["confidence"]["mismatches"] == 0, device["confidence"]
    assert allocator == "pool" or device["confidence"]["word"] == "exact", device["confidence"]
    for figure in ("requested", "allocated", "active", "reserved"):
        assert device["peak"][f"{figure}_bytes"] == counted[figure], figure


@pytest.mark.parametrize("allocator", ["native", "pool"])
def test_native_stacks_name_pytorchs_functions(tmp_path: Path, allocator: str) -> None:
    counted, device = record(tmp_path, allocator, "native")
    assert counted["lost"] == 0
    (by_stack,) = [breakdown for breakdown in device["at_peak"]["breakdowns"] if breakdown["by"] == "stack"]
    named = sum(
        holder["requested_bytes"]
        for holder in by_stack["holders"]
        if any(re.search(r"\b(at|torch)::", frame["function"]) for frame in holder["stack"])
    )
    assert named >= 0.9 * device["at_peak"]["requested_bytes"] > 0


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
    reported = subprocess.run(
        [vram.program(), "report", "--json", path], capture_output=True, text=True, check=False, timeout=120
    )
    (device,) = json.loads(reported.stdout)["devices"]
    assert device["confidence"]["word"] == "exact"
    assert "program.py" in json.dumps(device["holders"])

"""`vram run --record` records JAX's memory through the driver's calls."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("programs") / "jax_arrays.py"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")


def test_a_recording_of_jax_holds_what_jax_counts(tmp_path: Path) -> None:
    import vram

    path = tmp_path / "run.vtrace"
    words: list[str | Path] = [vram.program(), "run", "--record", path, "--", sys.executable, PROGRAM]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUDA_VISIBLE_DEVICES": "0"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout.splitlines()[-1])
    if counted["backend"] != "gpu":
        pytest.skip(f"this JAX computes on {counted['backend']}")
    assert counted["sum"] == 0 + 1 + 2 + 2048
    assert counted["peak"] >= 3 * 256 * MIB
    assert path.exists(), done.stderr
    reported = subprocess.run(
        [vram.program(), "report", "--json", path], capture_output=True, text=True, check=False, timeout=120
    )
    assert reported.stdout, reported.stderr
    device: Any
    (device,) = json.loads(reported.stdout)["devices"]
    assert device["allocations"] > 0
    peak = device["peak"]["requested_bytes"]
    gpu_bytes = vram.memory().gpus[0].total_bytes or 0
    assert counted["peak"] <= peak < gpu_bytes / 2  # what it needs; preallocated it takes most
    assert device["confidence"]["mismatches"] == 0, device["confidence"]

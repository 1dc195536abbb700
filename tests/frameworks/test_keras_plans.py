"""vram.keras.plan_remat() with the real Keras: its budgets, its gradients, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("keras", reason="keras is not installed; tools/requirements-frameworks.txt has the versions")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("VRAM_BINARY", ROOT / "build" / "release" / "src" / "vram"))


def run(backend: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, since Keras has one backend in each."""
    environment = {
        **os.environ,
        "KERAS_BACKEND": backend,
        "PYTHONPATH": str(ROOT / "python"),
        "VRAM_PROGRAM": os.environ.get("VRAM_PROGRAM", str(PROGRAM)),
        "VRAM_LIBRARY": os.environ.get("VRAM_LIBRARY", str(PROGRAM.with_name("libvram.so"))),
    }
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=300, check=False
    )


@pytest.fixture(scope="module", name="found")
def _found() -> dict[str, Any]:
    done = run("torch", str(Path(__file__).with_name("keras_plans.py")))
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_peaks_are_those_of_the_model_in_a_dry_run_of_its_own(found: dict[str, Any]) -> None:
    peak, full_peak, layers, measured = found["full"]
    assert (peak, layers) == (full_peak, [])
    assert measured == peak
    peak, budget, numbers, longer = found["plan"]
    assert found["measured"] == peak <= budget
    assert numbers
    assert 1 < longer < 1.4
    assert len(re.findall(r"block_\d+: again", found["text"])) == len(numbers)


def test_layers_with_random_numbers_or_statistics_are_kept(found: dict[str, Any]) -> None:
    dropout, statistics = 3, 7  # numbers in model.layers; 0 is the input
    assert {dropout, statistics}.isdisjoint(found["plan"][2])


def test_gradients_are_equal_and_less_is_kept(found: dict[str, Any]) -> None:
    assert found["equal"]
    without, planned = found["saved"]
    assert planned < 0.7 * without


def test_states_of_the_optimizer_count(found: dict[str, Any]) -> None:
    peak, parameters = found["optimizer"]
    assert peak - found["full"][0] == pytest.approx(2 * parameters, rel=0.1)


def test_errors_say_what_is_needed(found: dict[str, Any]) -> None:
    least = int(re.search(r"about [\d.]+ MiB \((\d+) bytes\)", found["small"])[1])  # type: ignore[index]
    assert least <= found["plan"][0]
    assert "with 9 layers, got one with 1" in found["other"]


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_other_backends_are_refused(backend: str) -> None:
    code = "import vram; vram.keras.plan_remat(lambda: None, [1.0], '1GiB')"
    done = run(backend, "-c", code)
    assert f"Keras runs on {backend}, whose compiler decides itself" in done.stderr

"""vram.memory() through libvram.so, on the fake management library of each generation (tests/fake_nvml)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from program import BINARY, ROOT

BUILD = pathlib.Path(BINARY).parents[1]
FAKES = BUILD / "tests/fake_nvml"

pytestmark = pytest.mark.skipif(BUILD.name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so")


def run(body: str, **environment: str) -> str:
    changed = {"PYTHONPATH": str(ROOT / "python"), "VRAM_LIBRARY": str(pathlib.Path(BINARY).with_name("libvram.so"))}
    done = subprocess.run(
        [sys.executable, "-c", f"import vram\n{body}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **changed, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("generation", ["1", "2", "535", "3"])
def test_figures_and_processes(generation: str) -> None:
    body = """
first, second = vram.memory().gpus
mib = 1 << 20
print(first.name, first.uuid, first.total_bytes // mib, first.used_bytes // mib, first.free_bytes // mib)
print(first.reserved_bytes and first.reserved_bytes // mib, first.busy_percent, second.busy_percent, first.trouble)
print([(p.pid, p.used_bytes and p.used_bytes // mib, p.is_graphics, p.gpu_instance) for p in first.processes])
print(second.processes, first.unattributed_bytes, second.unattributed_bytes // mib)
"""
    found = run(body, VRAM_NVML=str(FAKES / generation / "libnvidia-ml.so.1"))
    drawing = "[(77, None, True, None), (101, 200, True, None), (102, None, False, None), "
    expected = (
        "Fake GPU 0 GPU-0 1000 350 650\nNone 37 None None\n" + drawing + "(103, 20, False, None)]\n() None 350\n"
        if generation == "1"
        else "Fake GPU 0 GPU-0 1000 300 650\n50 37 None None\n"
        + drawing
        + "(103, 10, False, 1), (103, 20, False, 2)]\n() None 300\n"
    )
    assert found == expected


def test_the_table() -> None:
    found = run(
        "print(vram.memory())",
        VRAM_NVML=str(FAKES / "3/libnvidia-ml.so.1"),
        FAKE_NVML_FAIL="second=15 nvmlDeviceGetName=3",
    )
    assert found.splitlines() == [
        "GPU  name                 used     free  reserved     total  busy",
        "  0  ?                 300 MiB  650 MiB    50 MiB  0.98 GiB  37 %",
        "  1  GPU is lost (15)        ?        ?         ?         ?     ?",
        "GPU 0: process 77 uses ?",
        "GPU 0: process 101 uses 200 MiB",
        "GPU 0: process 102 uses ?",
        "GPU 0: process 103 uses 10 MiB",
        "GPU 0: process 103 uses 20 MiB",
        "GPU 1: processes unknown",
    ]


def test_without_the_library_nothing_is_known_and_said_so() -> None:
    found = run("m = vram.memory()\nprint(m.gpus, '/nowhere.so' in str(m))", VRAM_NVML="/nowhere.so")
    assert found == "() True\n"


def test_its_example_runs_without_a_gpu() -> None:
    environment = {"VRAM_NVML": "libnvidia-ml.so.1", "LD_LIBRARY_PATH": ""}
    body = "import doctest, vram.look._memory as m, ctypes.util\nprint(doctest.testmod(m))"
    if pathlib.Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    assert "failed=0" in run(body, **environment)

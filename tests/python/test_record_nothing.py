"""Recordings of programs that use no GPU: one sentence says why there is nothing, and what to do."""

import os
import pathlib
import subprocess
import sys

import pytest
from program import BINARY, ROOT, vram

STARTUP = ROOT / "python/vram/_startup"
SENTENCE = "nothing was recorded: the program used no GPU memory ("
DEMO = "; `vram demo` shows a report on any machine\n"
LIBRARY = str(pathlib.Path(BINARY).with_name("libvram.so"))
TORCH = "import torch; torch.ones(3).sum()"

pytestmark = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"} or os.path.exists("/dev/nvidiactl"),
    reason="needs libvram.so, and a machine without a GPU",
)


def record(folder: pathlib.Path, code: str, **changes: str) -> str:
    words = ["run", "--record", folder / "run.vtrace", "--", sys.executable, "-c", code]
    done = vram(*words, VRAM_STARTUP=str(STARTUP), VRAM_LIBRARY=LIBRARY, **changes)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "code", ["pass", TORCH, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TORCH!r}])"]
)
def test_a_program_without_a_gpu_is_told_once(code: str, tmp_path: pathlib.Path) -> None:
    errors = record(tmp_path, code)
    assert errors.startswith(f"vram: {SENTENCE}this machine, or its container, has no GPU: ")
    assert errors.endswith(DEMO)
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_another_process_recorded_counts(tmp_path: pathlib.Path) -> None:
    code = f"import pathlib; pathlib.Path({str(tmp_path)!r}, 'run.rank1.vtrace').touch()"
    assert record(tmp_path, code) == ""


def test_vram_record_warns(tmp_path: pathlib.Path) -> None:
    code = "import vram\nwith vram.record('run.vtrace'):\n    pass\nprint('done')"
    changes = {"PYTHONPATH": str(ROOT / "python"), "VRAM_LIBRARY": LIBRARY}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | changes,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.startswith(SENTENCE)
    assert done.stderr.endswith(DEMO)
    report = vram("report", tmp_path / "run.vtrace")
    assert report.returncode == 2
    assert "`vram demo` shows reports that need no GPU" in report.stderr

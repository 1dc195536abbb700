"""Recordings of processes that end by other ways than the interpreter's own: children of fork() and of multiprocessing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import BINARY, ROOT, environment

LIBRARY = Path(BINARY).with_name("libvram.so")
# A finished file ends with the offset of its index and this (docs/vtrace.md).
END_MARK_BYTES = 8

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)


def run(tmp_path: Path, text: str) -> dict[str, Path]:
    """The files that the program has recorded, by what it says of them: a line "<who> <pid>" each."""
    recording = tmp_path / "run.vtrace"
    program = tmp_path / "program.py"
    program.write_text(text)
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(VRAM_LIBRARY=str(LIBRARY), PYTHONPATH=str(ROOT / "python"), VRAM_RECORD=str(recording)),
    )
    assert (done.returncode, done.stderr) == (0, "")
    pids = dict(line.split() for line in done.stdout.splitlines())
    return {who: recording if who == "parent" else tmp_path / f"run.{pid}.vtrace" for who, pid in pids.items()}


def is_finished(recording: Path) -> bool:
    data = recording.read_bytes()
    return data[-END_MARK_BYTES:] == b"vtr-end\n"


PROGRAM = """
import multiprocessing, os, sys, time, vram
from vram import recording

def work():
    vram.step()
    print("child", os.getpid(), flush=True)

if __name__ == "__main__":
    recording.record_from_environment()
    vram.step()
    while not os.path.exists(os.environ["VRAM_RECORD"]):  # the name is taken by whoever records first
        time.sleep(0.01)
    {child}
    recording.finish_recording()
    print("parent", os.getpid())
"""


@pytest.mark.parametrize(
    "child",
    [
        "p = multiprocessing.get_context('fork').Process(target=work); p.start(); p.join(); assert p.exitcode == 0",
        "pid = os.fork(); (work(), sys.exit(0)) if pid == 0 else os.waitpid(pid, 0)",
    ],
    ids=["multiprocessing", "fork and sys.exit"],
)
def test_the_file_of_a_child_is_finished(tmp_path: Path, child: str) -> None:
    files = run(tmp_path, PROGRAM.format(child=child))
    assert set(files) == {"parent", "child"}
    assert {who: is_finished(file) for who, file in files.items()} == {"parent": True, "child": True}


def test_a_child_that_ends_its_parents_tap_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """After CUDA was initialized the allocator's devices are the parent's; its child must not ask them what they hold."""
    sys.path.insert(0, str(ROOT / "python"))
    from vram.torch import _recording

    calls: list[int] = []

    class Adapter:
        @staticmethod
        def vram_torch_untap() -> None:
            calls.append(os.getpid())

    monkeypatch.setattr("vram.torch.loaded_adapter", lambda: Adapter)
    monkeypatch.setattr(_recording, "_has_devices", lambda: True, raising=False)
    if hasattr(_recording, "watch_forks"):
        _recording.watch_forks()
    pid = os.fork()
    if pid == 0:
        _recording.stop_tap()
        os._exit(len(calls))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    _recording.stop_tap()
    assert calls == [os.getpid()]

"""vram record --pid: attaching to a Python program that knows nothing of vram.

The kernel allows that to root only (CAP_BPF and CAP_PERFMON): without these rights the tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, ROOT, vram
from test_record import events_of

FOLDER = Path(__file__).parent
MIB = 1 << 20
# Of a step: three layers, 5 MiB each.
STEP_BYTES = 15 * MIB


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("probed") / "libc10_cuda.so"
    source = FOLDER / "probed_library.cpp"
    command = ["c++", "-std=c++17", "-O2", "-shared", "-fPIC", "-I", ROOT / "src", source, "-o", target]
    subprocess.run([str(word) for word in command], check=True, timeout=120)
    return target


@pytest.fixture
def program(library: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(FOLDER / "probed_program.py"), str(library)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "trains\n"
        yield process
        if process.stdin is not None and process.poll() is None:
            process.stdin.close()


def attached(program: subprocess.Popen[str], path: Path, *words: str) -> str:
    """What vram prints. Skips the test if the kernel refuses."""
    done = vram("record", "--pid", str(program.pid), "-o", path, *words)
    if done.returncode == 3 and "the kernel" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def report_of(path: Path) -> Any:
    return json.loads(vram("report", "--json", path).stdout)


def test_a_running_program_is_recorded_and_left_running(program: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "run.vtrace"
    printed = attached(program, path, "--seconds", "0.6").splitlines()
    assert printed[0] == f"attached to process {program.pid}; Ctrl-C ends the recording"
    assert printed[1].startswith(f"{path}: ")
    assert re.search(r": ([\d,]+) allocations and [\d,]+ frees, at most [\d.]+ MiB at a time; detached$", printed[1])
    assert program.poll() is None
    by_device: dict[int, int] = {}
    for event in events_of(path):
        live = by_device.get(event["device"], 0)
        size = event["size_bytes"] if event["action"] == "alloc" else -event["size_bytes"]
        by_device[event["device"]] = live + size
        assert 0 <= by_device[event["device"]] <= STEP_BYTES
    assert set(by_device) == {0, 1}
    attached(program, path, "--seconds", "0.2")  # again: nothing was left behind


def test_stacks_name_the_lines_of_all_threads(program: subprocess.Popen[str], tmp_path: Path) -> None:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        pytest.skip("stacks of CPython 3.11 to 3.13 are known")
    path = tmp_path / "run.vtrace"
    attached(program, path, "--seconds", "0.6", "--stacks", "python")
    lines = (FOLDER / "probed_program.py").read_text().splitlines()

    def line_of(text: str) -> int:
        return next(number for number, line in enumerate(lines, 1) if text in line)

    allocations = [event for event in events_of(path) if event["action"] == "alloc"]
    assert len(allocations) > 100
    for event in allocations:
        inner, outer, *rest = [frame.rpartition("/")[2] for frame in event["stack"]]
        assert inner == f"probed_program.py:{line_of('library.probed_malloc(address')} Tensor.__init__"
        text = "first = Tensor" if event["size_bytes"] == 3 * MIB else "return [first"
        assert outer == f"probed_program.py:{line_of(text)} Layer.forward"
        assert f"probed_program.py:{line_of('step(base, device)')} train" in rest


def test_signals_and_the_end_of_the_program_end_the_recording(program: subprocess.Popen[str], tmp_path: Path) -> None:
    attached(program, tmp_path / "first.vtrace", "--seconds", "0.2")
    for end, words in ((signal.SIGINT, "detached"), (signal.SIGTERM, "detached"), (None, "the process has ended")):
        path = tmp_path / "run.vtrace"
        command = [str(BINARY), "record", "--pid", str(program.pid), "-o", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as recorder:
            assert recorder.stdout is not None
            assert recorder.stdout.readline().startswith("attached")
            time.sleep(0.2)
            if end is None:
                program.kill()
                program.wait(timeout=60)
            else:
                recorder.send_signal(end)
            assert recorder.stdout.read().endswith(f"; {words}\n")
        assert recorder.returncode == 0
        assert report_of(path)["devices"]


def test_a_disk_that_takes_no_more_is_an_error_of_the_environment(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    attached(program, tmp_path / "first.vtrace", "--seconds", "0.2")
    command = ["prlimit", "--fsize=4096", str(BINARY), "record", "--pid", str(program.pid), "--seconds", "10"]
    done = subprocess.run([*command, "-o", str(tmp_path / "run.vtrace")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "can't be written: File too large" in done.stderr
    assert program.poll() is None


def test_replaced_files_and_several_copies_are_found(library: Path, tmp_path: Path) -> None:
    """A library that was deleted since it was loaded, as by an upgrade, and a second copy of it."""
    copies = [tmp_path / name / library.name for name in ("first", "second")]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy(library, copy)
    code = (
        "import ctypes, sys, time\n"
        "copies = [ctypes.CDLL(path) for path in sys.argv[1:]]\n"
        "print('runs', flush=True)\n"
        "while True:\n"
        "    for at, copy in enumerate(copies):\n"
        "        copy.probed_malloc(ctypes.c_uint64(4096 + at), 0, ctypes.c_uint64(1000 + at), ctypes.c_int64(0))\n"
        "        copy.probed_free(ctypes.c_uint64(4096 + at))\n"
        "        time.sleep(0.001)\n"
    )
    command = [sys.executable, "-c", code, *map(str, copies)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "runs\n"
        copies[0].unlink()
        try:
            attached(program, tmp_path / "run.vtrace", "--seconds", "0.3")
        finally:
            program.kill()
    assert {event["size_bytes"] for event in events_of(tmp_path / "run.vtrace")} == {1000, 1001}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_missing_rights_are_named(library: Path, tmp_path: Path) -> None:
    user = 65534
    tmp_path.chmod(0o777)
    program_file, vram_file = tmp_path / "probed_program.py", tmp_path / "vram"
    shutil.copy(FOLDER / "probed_program.py", program_file)
    shutil.copy(BINARY, vram_file)
    own = shutil.copy(library, tmp_path / library.name)
    for folder in tmp_path.parents[:-2]:
        folder.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, str(program_file), str(own)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=user,
        extra_groups=[],
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "trains\n"
        done = subprocess.run(
            [str(vram_file), "record", "--pid", str(program.pid), "-o", str(tmp_path / "run.vtrace")],
            capture_output=True,
            text=True,
            user=user,
            extra_groups=[],
            check=False,
            timeout=120,
        )
        program.kill()
    assert done.returncode == 3
    assert "requires root, or the capabilities CAP_BPF and CAP_PERFMON" in done.stderr
    assert not (tmp_path / "run.vtrace").exists()


def test_what_cannot_be_recorded_is_named(program: subprocess.Popen[str], tmp_path: Path) -> None:
    attached(program, tmp_path / "first.vtrace", "--seconds", "0.2")
    path = tmp_path / "run.vtrace"
    done = vram("record", "--pid", str(program.pid), "-o", path, "--steps", "3")
    assert done.returncode == 2
    assert "use --seconds instead of --steps" in done.stderr
    with subprocess.Popen(["sleep", "60"]) as other:
        done = vram("record", "--pid", str(other.pid), "-o", path)
        other.kill()
    assert done.returncode == 2
    assert f"process {other.pid} has loaded no library with the probes pytorch:malloc and pytorch:free" in done.stderr
    path.write_text("not a recording")
    done = vram("record", "--pid", str(program.pid), "-o", path)
    assert done.returncode == 2
    assert path.read_text() == "not a recording"
    assert not list(tmp_path.glob("run.vtrace?*"))

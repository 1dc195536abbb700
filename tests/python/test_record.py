"""vram.record() and vram run --record: real Python programs that use a pool on the fake driver, and their files.

VRAM_BINARY names the program under test; the library is the one next to it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, ROOT, environment, started, vram

LIBRARY = Path(BINARY).with_name("libvram.so")
FAKE_DRIVER = Path(BINARY).parents[1] / "tests" / "fake_cuda" / "libcuda.so.1"
PROGRAM = ROOT / "tests" / "python" / "recorded_pool.py"

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

SURROUNDINGS = {
    "VRAM_LIBRARY": str(LIBRARY),
    "VRAM_CUDA_DRIVER": str(FAKE_DRIVER),
    "PYTHONPATH": f"{ROOT / 'python'}:{PROGRAM.parent}",
}

Event = dict[str, Any]


def python(*words: object, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment(**SURROUNDINGS, **changes),
    )


def events_of(recording: Path) -> list[Event]:
    target = recording.with_suffix(".jsonl")
    done = vram("convert", recording, target)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in target.read_text().splitlines()]


def test_blocks_scopes_and_stacks_are_in_the_file(tmp_path: Path) -> None:
    done = python(PROGRAM, tmp_path / "run.vtrace", "python")
    assert done.returncode == 0, done.stderr
    events = events_of(tmp_path / "run.vtrace")
    blocks = [event for event in events if event["action"] in ("alloc", "free_completed")]
    assert [event["size_bytes"] for event in blocks] == [3_000_000, *[1_000_000, 700, 1_000_000] * 4]
    assert [event["user_metadata"] for event in blocks[:4]] == [None, "forward", "forward", None]
    leaked = blocks[2]["stack"]
    line = 1 + next(i for i, text in enumerate(PROGRAM.read_text().splitlines()) if "blocks.alloc(700)" in text)
    assert any(f"{PROGRAM}:{line} train" in frame for frame in leaked), leaked
    assert leaked[-1].endswith("<module>")


def test_the_report_reads_it(tmp_path: Path) -> None:
    assert python(PROGRAM, tmp_path / "run.vtrace", "python").returncode == 0
    done = vram("report", tmp_path / "run.vtrace", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("vram.report/")


def test_ranks_have_files_of_their_own(tmp_path: Path) -> None:
    done = python(PROGRAM, tmp_path / "run.vtrace", RANK="3", WORLD_SIZE="4")
    assert done.returncode == 0, done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["run.rank3.vtrace"]


def test_run_records_a_program_without_a_change_to_it(tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("__version__ = '13.0.0'\n")
    code = "import cupy, recorded_pool; recorded_pool.main([])"
    for _ in range(2):  # the second run's file takes the place of the first's
        done = vram(
            *("run", "--record", tmp_path / "run.vtrace", "--stacks", "python", "--", sys.executable, "-c", code),
            **{**SURROUNDINGS, "PYTHONPATH": f"{tmp_path}:{SURROUNDINGS['PYTHONPATH']}"},
            VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert sorted(file.name for file in tmp_path.glob("*.vtrace")) == ["run.vtrace"]
    assert sum(event["action"] == "alloc" for event in events_of(tmp_path / "run.vtrace")) == 9


def test_what_an_earlier_runs_processes_left_is_told_and_kept(tmp_path: Path) -> None:
    (tmp_path / "run.4711.vtrace").write_bytes(b"kept")
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--", "true"),
        **SURROUNDINGS,
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
    )
    assert done.stderr == (
        "vram: warning: earlier runs left a recording next to run.vtrace (run.4711.vtrace); a report on the "
        "folder would include them: remove them, or record each run to its own folder\n"
    )
    assert (tmp_path / "run.4711.vtrace").read_bytes() == b"kept"


def test_a_killed_program_leaves_what_it_did_until_shortly_before(tmp_path: Path) -> None:
    code = (
        "import sys, time, vram, recorded_pool\n"
        "blocks = recorded_pool.Blocks(); vram.record(sys.argv[1])\n"
        "recorded_pool.train(blocks); time.sleep(0.5); print('ready', flush=True); time.sleep(60)"
    )
    surroundings = environment(**SURROUNDINGS)
    file = tmp_path / "run.vtrace"
    with started([sys.executable, "-c", code, file], stdout=subprocess.PIPE, env=surroundings) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(signal.SIGKILL)
        running.wait(timeout=60)
    assert sum(event["action"] == "alloc" for event in events_of(file)) == 9


def test_a_second_recording_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    code = (
        "import sys, vram\n"
        "with vram.record(sys.argv[1] + '/a.vtrace'):\n"
        "    try: vram.record(sys.argv[1] + '/b.vtrace')\n"
        "    except vram.VramError as error: print(error)\n"
        "    print(vram.is_recording())\n"
        "print(vram.is_recording())"
    )
    done = python("-c", code, tmp_path)
    assert done.stdout == f"{tmp_path}/a.vtrace is being recorded already; stop that first\nTrue\nFalse\n"


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = python("-c", "import vram, sys\nvram.record(sys.argv[1])", tmp_path / "none" / "run.vtrace")
    assert "none/run.vtrace: can't be written: No such file or directory" in done.stderr


def test_stacks_are_read_by_threads_that_compete_for_the_interpreter(tmp_path: Path) -> None:
    code = (
        "import sys, threading, time, vram, recorded_pool\n"
        "blocks = recorded_pool.Blocks()\n"
        "def work():\n"
        "    for _ in range(2000): blocks.free(blocks.alloc(1000))\n"
        "with vram.record(sys.argv[1], stacks='python') as recording:\n"
        "    threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "    [t.start() for t in threads]; [t.join() for t in threads]\n"
        "print(recording.lost)"
    )
    done = python("-c", code, tmp_path / "run.vtrace")
    assert done.stdout == "0\n", done.stderr
    events = events_of(tmp_path / "run.vtrace")
    assert sum(event["action"] == "alloc" for event in events) == 8000
    stacks = {" ".join(event["stack"]) for event in events if event["action"] == "alloc"}
    assert all(" work " in stack for stack in stacks), stacks


DRIVER_PROGRAM = """
import ctypes, sys
driver = ctypes.CDLL("libcuda.so.1")
def found(name):
    if sys.argv[1] == "dlsym": return getattr(driver, name)
    function = ctypes.c_void_p()
    base = name.removesuffix("_v2").encode()
    assert driver.cuGetProcAddress_v2(base, ctypes.byref(function), 12000, ctypes.c_uint64(0), None) == 0
    return ctypes.CFUNCTYPE(ctypes.c_int, *{"cuMemAlloc_v2": [ctypes.c_void_p, ctypes.c_size_t],
                                            "cuMemFree_v2": [ctypes.c_uint64]}[name])(function.value)
assert driver.cuInit(0) == 0
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1) == 0
assert driver.cuCtxPushCurrent_v2(context) == 0
def allocate(size):
    address = ctypes.c_uint64()
    result = found("cuMemAlloc_v2")(ctypes.byref(address), ctypes.c_size_t(size))
    return address if result == 0 else None
kept = allocate((5 << 20) + 100)
gone = allocate(3 << 20)
assert found("cuMemFree_v2")(gone) == 0
assert allocate(1 << 40) is None
"""


@pytest.mark.parametrize("way", ["dlsym", "cuGetProcAddress"])
def test_the_drivers_calls_are_recorded_in_any_program(tmp_path: Path, way: str) -> None:
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--stacks", "python", "--"),
        *(sys.executable, "-c", DRIVER_PROGRAM, way),
        **SURROUNDINGS,
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        LD_LIBRARY_PATH=str(FAKE_DRIVER.parent),
    )
    assert (done.returncode, done.stderr) == (0, "")
    events = events_of(tmp_path / "run.vtrace")
    mib = 1 << 20
    assert [(event["action"], event["size_bytes"] // mib, event["device"]) for event in events] == [
        ("segment_alloc", 5, 1),
        ("alloc", 5, 1),
        ("segment_alloc", 3, 1),
        ("alloc", 3, 1),
        ("free_completed", 3, 1),
        ("segment_free", 3, 1),
        ("oom", mib, 1),
    ]
    assert any(" allocate" in frame for frame in events[1]["stack"]), events[1]["stack"]
    assert (events[0]["size_bytes"], events[1]["size_bytes"]) == (5 * mib + 512, 5 * mib + 100)
    report = json.loads(vram("report", tmp_path / "run.vtrace", "--json").stdout)
    assert report["confidence"]["mismatches"] == 0
    assert report["peak"]["requested_bytes"] == 8 * mib + 100


def test_native_stacks_begin_with_the_programs_own_frames(tmp_path: Path) -> None:
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--stacks", "native", "--"),
        *(sys.executable, "-c", DRIVER_PROGRAM, "dlsym"),
        **SURROUNDINGS,
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        LD_LIBRARY_PATH=str(FAKE_DRIVER.parent),
    )
    assert (done.returncode, done.stderr) == (0, "")
    stack = events_of(tmp_path / "run.vtrace")[1]["stack"]
    assert "libffi" in stack[0], stack  # by which ctypes calls
    assert not any("libvram" in frame for frame in stack), stack


def test_a_pool_speaks_for_its_process(tmp_path: Path) -> None:
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--", sys.executable, "-c"),
        "import recorded_pool; recorded_pool.main([])",
        **{**SURROUNDINGS, "VRAM_CUDA_DRIVER": "libcuda.so.1", "LD_LIBRARY_PATH": str(FAKE_DRIVER.parent)},
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sum(event["action"] == "alloc" for event in events_of(tmp_path / "run.vtrace")) == 9

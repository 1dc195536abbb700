"""vram.memory() on the fake management library of each generation (tests/fake_nvml) and on recorded AMD and Intel GPUs, and
vram.Board, through libvram.so.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest
from program import BINARY, ROOT, vram
from recorded_gpus import TREES, unpack

BUILD = pathlib.Path(BINARY).parents[1]
FAKES = BUILD / "tests/fake_nvml"

pytestmark = pytest.mark.skipif(BUILD.name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so")


def run(body: str, **environment: str) -> str:
    changed = {
        "PYTHONPATH": str(ROOT / "python"),
        "VRAM_LIBRARY": str(pathlib.Path(BINARY).with_name("libvram.so")),
        "VRAM_DRM_ROOT": "/nowhere",  # this machine may have such GPUs
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import vram\n{body}"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **changed, **environment},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("generation", ["1", "2", "535", "3"])
def test_figures_and_processes(generation: str) -> None:
    body = """
first, second = vram.memory().gpus
mib = 1 << 20
print(first.name, first.uuid, first.total_bytes // mib, first.used_bytes // mib, first.free_bytes // mib)
print(first.reserved_bytes and first.reserved_bytes // mib, first.busy_percent, second.busy_percent, first.error)
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


AS_STATUS = """
import json
def process(entry):
    return {"pid": entry.pid, "used_bytes": entry.used_bytes, "host_bytes": entry.host_bytes}
def gpu(each):
    memory = {name: getattr(each, name) for name in ("total_bytes", "used_bytes", "free_bytes", "reserved_bytes")}
    names = ("index", "vendor", "name", "uuid", "pci_id", "is_asleep", "busy_percent", "memory_busy_percent", "error")
    host = [each.host_total_bytes, each.host_used_bytes]
    return {**{name: getattr(each, name) for name in names}, "memory": memory, "host": host,
            "processes": each.processes and [process(entry) for entry in each.processes]}
print(json.dumps([gpu(each) for each in vram.memory().gpus]))
"""


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.stem)
def test_amds_and_intels_gpus_are_those_of_status(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    unpack(tree, tmp_path / "root")
    nvml = str(FAKES / "3/libnvidia-ml.so.1")
    gpus = json.loads(run(AS_STATUS, VRAM_NVML=nvml, VRAM_DRM_ROOT=str(tmp_path / "root")))
    shown = json.loads(vram("status", "--json", VRAM_NVML=nvml, VRAM_DRM_ROOT=str(tmp_path / "root")).stdout)
    assert len(gpus) == len(shown["devices"])
    for gpu, device in zip(gpus, shown["devices"], strict=True):
        host = device["host_memory"] or {"total_bytes": None, "used_bytes": None}
        assert gpu.pop("host") == [host["total_bytes"], host["used_bytes"]]
        uses = [
            {"pid": process["pid"], "used_bytes": use["used_bytes"], "host_bytes": use["host_bytes"]}
            for process in shown["processes"]
            for use in process["uses"]
            if use["device"] == gpu["index"]
        ]
        assert (gpu.pop("processes") or []) == uses
        memory = gpu.pop("memory")
        assert memory == {name: device["memory"][name] for name in memory}
        if device["vendor"] == "intel":  # status may compute it from two samples
            assert gpu.pop("busy_percent") is None
        assert gpu == {name: device[name] for name in gpu}


def test_the_table_of_a_laptop(tmp_path: pathlib.Path) -> None:
    (asleep,) = (tree for tree in TREES if tree.stem == "amdgpu_laptop_asleep")
    unpack(asleep, tmp_path / "root")
    found = run("print(vram.memory())", VRAM_NVML="libc.so.6", VRAM_DRM_ROOT=str(tmp_path / "root")).splitlines()
    assert " (asleep) " in found[1]
    assert found[-1].startswith("NVIDIA's GPUs unknown: expected NVIDIA's management library as libc.so.6, found")


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


def test_examples_run_without_a_gpu(tmp_path: pathlib.Path) -> None:
    if pathlib.Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has a driver")
    body = """
import doctest
finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
for thing in (vram.Board, vram.Gpu, vram.memory):
    for test in finder.find(thing, module=False, globs=vars(vram).copy()):
        runner.run(test)
print(runner.failures, runner.tries > 8)
"""
    found = run(body, VRAM_NVML="libnvidia-ml.so.1", LD_LIBRARY_PATH="", VRAM_BOARD=str(tmp_path / "board"))
    assert found == "0 True\n"


READ = """
import ctypes, os
from vram._library import library
from vram._prototypes import BoardPage
def read(pid):
    page = BoardPage(struct_bytes=ctypes.sizeof(BoardPage))
    if library().vram_board_read(pid, ctypes.byref(page)) != 0:
        library().vram_last_error.restype = ctypes.c_char_p
        return library().vram_last_error().decode()
    mib = [[d.allocated_bytes >> 20, d.reserved_bytes >> 20, d.peak_bytes >> 20, d.cached_bytes >> 20] for d in page.devices]
    known = [None if n == (1 << 64) - 1 else n for n in (page.step, page.step_ns)]
    return page.scope.decode(), page.owner, *known, mib[: page.device_count]
"""


def test_measurements_and_steps_are_posted(tmp_path: pathlib.Path) -> None:
    body = f"""{READ}
from vram.monitoring._board import post_step
post_step(1, 2)  # no board is open
board = vram.Board()
mib = 1 << 20
def measure(name, allocated, peak):
    board(vram.Measurement(name, 1, 0, 0, devices=(vram.DeviceUse(3, allocated * mib, 100 * mib, 0, 0, peak * mib),)))
measure("forward", 60, 90)
print(read(os.getpid()))
measure("backward", 40, 70)
post_step(12, 5000)
print(read(os.getpid()))
pid = os.fork()
if pid == 0:
    measure("child", 10, 10)
    print(read(os.getpid())[0], read(os.getppid())[0], flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(read(pid)[:2])
board.close()
measure("closed", 1, 1)
print("found none" in read(os.getpid()))
"""
    assert run(body, VRAM_BOARD=str(tmp_path / "board")).splitlines() == [
        "('forward', 0, None, None, [[60, 100, 90, 40]])",
        "('backward', 0, 12, 5000, [[40, 100, 90, 60]])",  # the peak is that of all
        "child backward",
        "('child', 1)",  # it ended without cleaning up: a dead owner's
        "True",
    ]
    assert [path.name for path in (tmp_path / "board").iterdir() if not path.name.isdigit()] == []


def test_a_board_that_others_could_read_is_refused(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o755)
    body = "try:\n    vram.Board()\nexcept vram.VramError as error:\n    print(error)"
    assert "mode 0755" in run(body, VRAM_BOARD=str(tmp_path))


# CUDA's driver as far as vram.monitor asks it: contexts on the devices in `contexts`, a bit for each.
CONTEXTS = """
#include <stdio.h>
unsigned contexts = 0;
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  *active = contexts >> device & 1;
  return device < 2 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return snprintf(text, size, "0000:%02X:00.0", 0x19 + device) < 0;
}
"""

DRIVER_BODY = """
import ctypes, os, pathlib
cuda = ctypes.CDLL({cuda!r}) if {cuda!r} else None
scenario = pathlib.Path(os.environ["FAKE_NVML_SCENARIO"])
def become(contexts, own, used, other=""):
    if cuda:
        ctypes.c_uint.in_dll(cuda, "contexts").value = contexts
    device = "device {{}}\\nname Card\\nuuid GPU-{{}}\\npci 0 {{:#x}} 0\\ntotal 1000M\\nreserved 0\\n"
    lines = [device.format(i, i, 0x19 + i) + f"used {{used if i else 5}}M" for i in range(2)]
    processes = ([f"process compute {{os.getpid()}} {{own}}M"] if own else []) + ([other] if other else [])
    scenario.with_suffix(".new").write_text("\\n".join([*lines, *processes, ""]))
    scenario.with_suffix(".new").rename(scenario)
def shown(use):
    sizes = (use.process_bytes, use.process_delta_bytes, use.device_used_bytes, use.device_used_delta_bytes)
    return use.device, *(size if size is None else size >> 20 for size in sizes)
vram.add_sink(lambda _: None)
"""


@pytest.fixture(name="cuda", scope="module")
def _cuda(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "cuda.c").write_text(CONTEXTS)
    file = folder / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(file), str(folder / "cuda.c")]
    subprocess.run(command, check=True, timeout=60)
    return file


def run_with_driver(cuda: pathlib.Path | str, body: str, folder: pathlib.Path, **changes: str) -> str:
    scenario = folder / "machine"
    scenario.write_text("driver loaded\n")
    nvml = str(FAKES / "3/libnvidia-ml.so.1")
    begin = DRIVER_BODY.format(cuda=str(cuda))
    return run(begin + body, VRAM_NVML=nvml, FAKE_NVML_SCENARIO=str(scenario), **changes)


def test_a_region_has_the_drivers_figure_of_a_process_without_a_framework(
    cuda: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    body = """
become(2, 100, 400)
with vram.monitor("cupy") as region:
    become(2, 164, 464)
print(*map(shown, region.result.devices))
print(str(region.result).split("; ")[1])
with vram.monitor("unread", driver=False) as region:
    pass
print(region.result.devices)
"""
    if not is_host():
        pytest.skip("in a container the driver's pids are the host's")
    assert run_with_driver(cuda, body, tmp_path).splitlines() == [
        "(1, 164, 64, 464, 64)",
        "GPU 1: this process by the driver 164 MiB (+64 MiB)",
        "()",
    ]


def test_the_context_that_a_region_creates_counts(cuda: pathlib.Path, tmp_path: pathlib.Path) -> None:
    body = """
become(0, 0, 10)
with vram.monitor("first") as region:
    become(2, 500, 510)
print(*map(shown, region.result.devices))
"""
    if not is_host():
        pytest.skip("in a container the driver's pids are the host's")
    assert run_with_driver(cuda, body, tmp_path) == "(1, 500, 500, 510, None)\n"


def test_in_a_container_only_the_single_process_of_a_device_is_known_to_be_this_one(
    cuda: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    body = """
from vram.monitoring import _driver
_driver._FIRST_PID_NAMESPACE = 0  # this process is in another one
become(2, 0, 200, "process compute 4711 150M")
with vram.monitor("alone") as region:
    become(2, 0, 230, "process compute 4711 180M")
print(*map(shown, region.result.devices))
become(2, 50, 200, "process compute 4711 150M")  # with the number of a process of another container
with vram.monitor("shared") as region:
    pass
print(*map(shown, region.result.devices))
print(str(region.result).split("; ")[1])
"""
    assert run_with_driver(cuda, body, tmp_path).splitlines() == [
        "(1, 180, 30, 230, 30)",
        "(1, None, None, 200, 0)",
        "GPU 1: all processes by the driver 200 MiB (0 B)",
    ]


def test_without_cuda_in_the_process_the_driver_is_not_loaded(tmp_path: pathlib.Path) -> None:
    calls = tmp_path / "calls"
    body = """
become(0, 0, 10)
with vram.monitor("host") as region:
    pass
print(region.result)
"""
    found = run_with_driver("", body, tmp_path, FAKE_NVML_CALLS=str(calls))
    assert found.endswith("; GPU memory unknown: no framework that vram knows is imported\n")
    assert not calls.exists()


def is_host() -> bool:
    return os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC

"""vram run --record of a program whose allocator reports itself: what libraries allocate besides, and large copies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, vram
from test_driver_tap import FOLDER, compiled, driver, run  # noqa: F401

PROGRAM = """
import ctypes, sys
vram = ctypes.CDLL({library!r})
nccl, cudart = (ctypes.CDLL(path) for path in sys.argv[1:])
for library in (nccl, cudart):
    library.take.restype = library.give_back.argtypes = None
    library.take.restype, library.take.argtypes = ctypes.c_uint64, [ctypes.c_size_t]
    library.give_back.argtypes = [ctypes.c_uint64]
    library.copy_to_device.argtypes = library.copy_to_host.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
MIB = 1 << 20

class Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int), ("address", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("stream", ctypes.c_void_p), ("stack", ctypes.c_uint32)]

def figure(name, value):
    vram.vram_record_figure(0, name, ctypes.c_uint64(value))

assert ctypes.CDLL("libcuda.so.1").cuCtxSetCurrent(ctypes.c_void_p(1)) == 0
vram.vram_record_start_as_told()
vram.vram_record_claim()
taken = cudart.take(40 * MIB)  # the allocator's segment
vram.vram_record_event(ctypes.byref(Event(5, 0, taken, 40 * MIB)))
vram.vram_record_event(ctypes.byref(Event(0, 0, taken, 30 * MIB)))
figure(b"device.used_before_bytes", 100 * MIB)
figure(b"device.used_bytes", 640 * MIB)
kept = [nccl.take(64 * MIB), nccl.take(8 * MIB)]
passing = nccl.take(256 * MIB)
cudart.take(3 * MIB)  # cudaMalloc of the program
nccl.give_back(passing)
figure(b"device.used_bytes", 720 * MIB)
cudart.copy_to_device(taken, 5 * MIB)
cudart.copy_to_device(taken, 5 * MIB)
cudart.copy_to_device(taken, MIB - 1)
cudart.copy_to_host(taken, 2 * MIB)
"""
MIB = 1 << 20

# Nothing is alive at the end but 3 MiB, of 16 MiB that were allocated at addresses that had been others'.
UNSEEN_PROGRAM = (
    PROGRAM.partition("kept = ")[0]
    + """
driver = ctypes.CDLL("libcuda.so.1")
first = [nccl.take(MIB) for _ in range(16)]
driver.break_device(1)
nccl.give_back(first[0])  # fails
driver.break_device(0)
nccl.give_back(first[0])
driver.forget_all()
cudart.take(40 * MIB)  # where the segment was
second = [nccl.take(MIB) for _ in range(16)]
for address in second[:13]:
    nccl.give_back(address)
figure(b"device.used_bytes", 720 * MIB)
"""
)

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram_tap.so"
)


def reported(tmp_path: Path, driver: Path, text: str) -> dict[str, Any]:  # noqa: F811
    names = ("libnccl.so.2", "libcudart.so.13")
    libraries = [compiled(FOLDER / "library_calls.cpp", tmp_path / name) for name in names]
    program = tmp_path / "program.py"
    program.write_text(text.format(library=str(Path(BINARY).with_name("libvram.so"))))
    run(tmp_path, driver, sys.executable, program, *libraries)
    document: dict[str, Any] = json.loads(vram("report", tmp_path / "run.vtrace", "--json").stdout)
    return document


@pytest.fixture
def report(tmp_path: Path, driver: Path) -> dict[str, Any]:  # noqa: F811
    return reported(tmp_path, driver, PROGRAM)


def test_sums_are_exact_after_failures_and_frees_that_nobody_saw(tmp_path: Path, driver: Path) -> None:  # noqa: F811
    items = reported(tmp_path, driver, UNSEEN_PROGRAM)["rest"]["items"]
    assert [item["bytes"] for item in items if item["kind"] == "library"] == [3 * MIB]


def test_each_librarys_memory_is_its_own_item(report: dict[str, Any]) -> None:
    rest = report["rest"]
    items = {(item["kind"], item["name"]): item["bytes"] for item in rest["items"]}
    assert items == {
        ("allocator", "allocator"): 40 * MIB,
        ("other_processes", "other processes"): 100 * MIB,
        ("context", "CUDA context"): 500 * MIB,
        ("library", "libnccl.so.2"): 72 * MIB,
        ("library", "cudaMalloc of others than the allocator"): 3 * MIB,
        ("modules", "modules, kernel stacks and other memory of the driver"): 5 * MIB,
    }
    assert rest["unnamed_bytes"] == 0
    assert rest["used_bytes"] == 720 * MIB


def test_the_librarys_memory_is_not_the_allocators(report: dict[str, Any]) -> None:
    assert report["peak"]["reserved_bytes"] == 40 * MIB
    assert report["allocations"] == 1


def test_large_copies_are_marks(report: dict[str, Any]) -> None:
    totals = {total["kind"]: (total["name"], total["count"], total["bytes"]) for total in report["marks"]["totals"]}
    assert totals == {
        "copy_to_device": ("host to device", 2, 10 * MIB),
        "copy_to_host": ("device to host", 1, 2 * MIB),
    }

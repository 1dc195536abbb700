#!/usr/bin/env python3
"""Makes recordings_owners/: a program whose recording has samples of the device and marks, by figures that are stated here.

    make_owners.py BUILD      (build/release)

It is what vram records of two ranks that train on a GPU under `vram run --record`, without the GPU. The golden tests report it.
Times are stated, so the contents do not change; the process and the machine are those of the last run.
"""

from __future__ import annotations

import ctypes
import pathlib
import sys

MIB = 1 << 20
SECOND = 1_000_000_000
BEGIN = 1_795_000_000 * SECOND
ALLOC, FREE, SEGMENT = 0, 2, 5
COLLECTIVE, TO_DEVICE = 1, 2


class Event(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("device", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("size_bytes", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("stack", ctypes.c_uint32),
    )


class Mark(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_size_t),
        ("kind", ctypes.c_int),
        ("device", ctypes.c_int),
        ("size_bytes", ctypes.c_uint64),
        ("duration_ns", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("group", ctypes.c_char_p),
    )


class Program:
    def __init__(self, build: pathlib.Path) -> None:
        self.vram = ctypes.CDLL(str(build.resolve() / "src" / "libvram.so"))
        self.now = BEGIN

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds * 1_000_000
        self.vram.vram_record_time(ctypes.c_uint64(self.now))

    def event(self, kind: int, address: int, size: int) -> None:
        self.vram.vram_record_event(ctypes.byref(Event(kind, 0, address, size)))

    def figure(self, name: str, mib: int) -> None:
        self.vram.vram_record_figure(0, name.encode(), ctypes.c_uint64(mib * MIB))

    def mark(self, kind: int, name: str, size: int, microseconds: int, group: str = "") -> None:
        mark = Mark(ctypes.sizeof(Mark), kind, 0, size, microseconds * 1000, name.encode(), group.encode())
        self.vram.vram_record_mark(ctypes.byref(mark))

    def sample(self, process: int) -> None:
        self.figure("process.used_bytes", process)
        self.figure("others.used_bytes", 1210)
        self.figure("device.used_bytes", process + 1212)

    def train(self) -> None:
        self.wait(100)
        self.event(SEGMENT, 1 << 40, 2048 * MIB)
        self.event(ALLOC, 1 << 40, 1500 * MIB)
        for name, mib in {
            "device.total_bytes": 81559,
            "device.reserved_bytes": 560,
            "device.used_before_bytes": 1210,
        }.items():
            self.figure(name, mib)
        self.vram.vram_record_figure(0, b"library.calls_observed", ctypes.c_uint64(1))
        self.wait(60)
        self.sample(2048 + 478)
        self.figure("library.libnccl.so.2", 312)
        self.figure("library.libcublasLt.so.13", 33)
        for number in range(6):
            self.vram.vram_step()
            self.step(number)
        self.wait(60)
        self.sample(2048 + 478 + 312 + 33 + 96)

    def step(self, number: int) -> None:
        self.wait(2)
        self.mark(TO_DEVICE, "host to device", 37 * MIB, 900)
        self.event(ALLOC, (1 << 40) + 1500 * MIB, (400 + number % 2) * MIB)
        self.wait(30)
        for bucket in range(3):
            self.wait(5)
            self.mark(COLLECTIVE, "all_reduce", (25 + bucket) * MIB, 40 + bucket, "default_pg")
        self.mark(COLLECTIVE, "all_gather", 64 * 1024, 25, "tp")
        self.event(FREE, (1 << 40) + 1500 * MIB, 0)
        self.wait(10)


def main() -> None:
    folder = pathlib.Path(__file__).with_name("recordings_owners")
    folder.mkdir(exist_ok=True)
    program = Program(pathlib.Path(sys.argv[1]))
    program.vram.vram_record_start(str(folder / "run.vtrace").encode(), None)
    program.train()
    assert program.vram.vram_record_stop() == 0


if __name__ == "__main__":
    main()

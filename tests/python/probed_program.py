"""A training that knows nothing of vram: python probed_program.py LIBRARY; it trains until its standard input is closed."""

import ctypes
import select
import sys
import threading

MIB = 1 << 20
library = ctypes.CDLL(sys.argv[1])
library.probed_malloc.argtypes = [ctypes.c_uint64, ctypes.c_int8, ctypes.c_uint64, ctypes.c_int64]
library.probed_free.argtypes = [ctypes.c_uint64]


class Tensor:
    def __init__(self, address: int, device: int, size: int) -> None:
        self.address = address
        library.probed_malloc(address, device, size, 0)

    def __del__(self) -> None:
        library.probed_free(self.address)


class Layer:
    def forward(self, base: int, device: int) -> "list[Tensor]":
        first = Tensor(base, device, 3 * MIB)
        return [first, Tensor(base + 4 * MIB, device, 2 * MIB)]


def step(base: int, device: int) -> None:
    kept = [Layer().forward(base + i * 16 * MIB, device) for i in range(3)]
    del kept


def train(base: int, device: int) -> None:
    while not stopped.wait(0.001):
        step(base, device)


stopped = threading.Event()
parameters = Tensor(1 << 45, 0, 7 * MIB)
other = threading.Thread(target=train, args=(1 << 46, 1))
main = threading.Thread(target=train, args=(1 << 47, 0))
other.start()
main.start()
print("trains", flush=True)
select.select([sys.stdin], [], [])
stopped.set()
other.join(timeout=600)
main.join(timeout=600)

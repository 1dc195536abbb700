#!/usr/bin/env python3
"""Makes recordings/run.rank{0,1,2}.vtrace: a small training program on vram's pool and the fake driver, with names.

    make_recordings.py BUILD      (build/release)

Three ranks of a model of four layers train for six steps. Rank 1 has sequences that are twice as long in step 3, so it
holds more activations there than the others. The golden tests report them; the files change with every run (times), so
they are made again only when the program does.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys

RANKS, LAYERS, STEPS = 3, 4, 6
KIB = 1024


def load(build: pathlib.Path) -> ctypes.CDLL:
    os.environ["VRAM_CUDA_DRIVER"] = str(build.resolve() / "tests" / "fake_cuda" / "libcuda.so.1")
    library = ctypes.CDLL(str(build.resolve() / "src" / "libvram.so"))
    library.vram_alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    library.vram_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.vram_name.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_char_p]
    return library


class Program:
    def __init__(self, vram: ctypes.CDLL, rank: int) -> None:
        self.vram, self.rank, self.pool = vram, rank, ctypes.c_void_p()
        assert vram.vram_pool_open(0, None, ctypes.byref(self.pool)) == 0

    def alloc(self, size: int, name: str = "", category: str = "") -> int:
        block = ctypes.c_void_p()
        assert self.vram.vram_alloc(self.pool, size, None, ctypes.byref(block)) == 0
        if name:
            self.vram.vram_name(0, block, size, name.encode(), category.encode())
        return block.value or 0

    def free(self, block: int) -> None:
        assert self.vram.vram_free(self.pool, block) == 0

    def scope(self, name: str) -> None:
        self.vram.vram_scope_begin(name.encode())

    def end(self) -> None:
        self.vram.vram_scope_end()

    def train(self) -> None:
        for layer in range(LAYERS):
            self.alloc(600 * KIB, f"layers.{layer}.weight", "parameter")
        for number in range(STEPS):
            self.vram.vram_step()
            self.step(number)

    def step(self, number: int) -> None:
        tokens = 2 if self.rank == 1 and number == 3 else 1
        batch = self.alloc(300 * KIB * tokens)
        kept = []
        for layer in range(LAYERS):
            self.scope(f"forward/layers.{layer}")
            scratch = self.alloc(100 * KIB)
            kept.append(self.alloc(1000 * KIB * tokens))
            self.free(scratch)
            self.end()
        gradients = []
        for layer in reversed(range(LAYERS)):
            self.scope(f"backward/layers.{layer}")
            gradients.append(self.alloc(600 * KIB, f"layers.{layer}.weight", "gradient"))
            self.free(kept.pop())
            self.end()
        self.scope("optimizer")
        if number == 0:
            for layer in range(LAYERS):
                self.alloc(1200 * KIB, f"layers.{layer}.weight", "optimizer state")
        self.end()
        for block in [*gradients, batch]:
            self.free(block)


def record(build: pathlib.Path, rank: int, path: pathlib.Path) -> None:
    vram = load(build)
    assert vram.vram_record_start(str(path).encode(), None) == 0
    for key, value in {"rank": rank, "world_size": RANKS, "host": f"node{rank // 2}"}.items():
        vram.vram_record_about(key.encode(), str(value).encode())
    Program(vram, rank).train()
    assert vram.vram_record_stop() == 0


def main() -> None:
    build = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(__file__).with_name("recordings")
    folder.mkdir(exist_ok=True)
    if len(sys.argv) > 2:
        rank = int(sys.argv[2])
        record(build, rank, folder / f"run.rank{rank}.vtrace")
    else:
        for rank in range(RANKS):
            subprocess.run([sys.executable, __file__, str(build), str(rank)], check=True, timeout=120)


if __name__ == "__main__":
    main()

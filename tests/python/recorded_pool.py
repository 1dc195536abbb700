"""A program that uses a pool on the fake driver, as CuPy's allocator would, for tests of recording."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import vram
from vram._library import Pool, library


class Blocks:
    """Blocks of device 0, by ctypes."""

    def __init__(self) -> None:
        self.pool = Pool(0)

    def alloc(self, size: int, stream: int = 0) -> int:
        block = ctypes.c_void_p()
        assert library().vram_alloc(self.pool.handle, size, stream, ctypes.byref(block)) == 0
        return block.value or 0

    def free(self, address: int) -> None:
        assert library().vram_free(self.pool.handle, address) == 0


def train(blocks: Blocks) -> int:
    weight = blocks.alloc(3_000_000)
    kept = []
    for _ in range(4):
        vram.step()
        with vram.scope("forward"):
            activation = blocks.alloc(1_000_000)
            leaked = blocks.alloc(700)
        kept.append(leaked)
        blocks.free(activation)
    return weight


def main(arguments: Any) -> None:
    blocks = Blocks()
    if arguments:
        with vram.record(arguments[0], stacks=arguments[1] if len(arguments) > 1 else None):
            train(blocks)
    else:
        train(blocks)


if __name__ == "__main__":
    main(sys.argv[1:])

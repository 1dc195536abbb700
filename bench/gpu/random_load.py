"""Changes its GPU memory at random, by blocks of 1 MiB to 3 GiB: random_load.py SECONDS.

It publishes a status page, so `vram free` can send it requests.
"""

import random
import sys
import time

import torch

import vram

MIB = 1 << 20


def main(seconds: float) -> None:
    vram.add_sink(vram.Board())
    random.seed(1)
    matrix = torch.randn(4096, 4096, device="cuda")
    blocks: list[torch.Tensor] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if len(blocks) > 30 or (blocks and random.random() < 0.45):
            blocks.pop(random.randrange(len(blocks)))
        else:
            blocks.append(torch.empty(random.randrange(MIB, 3 << 30), dtype=torch.uint8, device="cuda"))
        if random.random() < 0.15:
            torch.cuda.empty_cache()
        with vram.scope("load"):
            matrix @ matrix
            torch.cuda.synchronize()
        vram.step()
        time.sleep(random.choice([0.02, 0.3, 0.5]))


main(float(sys.argv[1]))

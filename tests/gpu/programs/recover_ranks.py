"""One rank of two: DistributedDataParallel over NCCL, a GPU each, of which the first has too little memory.

recover_ranks.py native|pool RANK FILE     FILE: where the ranks find each other
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from scarce import Net, begin, difference, gradients, limited, loss_of, make_batch, too_little_for, train
from torch.nn.parallel import DistributedDataParallel

import vram


def touched() -> list[bool]:
    """Whether this process has a context, which takes hundreds of MiB, on each of the GPUs."""
    core: Any = torch._C
    return [core._cuda_hasPrimaryContext(device) for device in range(2)]


def main() -> None:
    rank, file = int(sys.argv[2]), sys.argv[3]
    torch.cuda.set_device(rank)
    begin()
    dist.init_process_group("nccl", f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=60))
    ddp = DistributedDataParallel(Net().cuda(), device_ids=[rank])
    torch.manual_seed(100 + rank)
    batch = make_batch()
    limit = too_little_for(lambda samples: train(ddp, batch, samples))
    train(ddp, batch)
    expected = gradients(ddp)  # DDP's own averages over both whole batches
    before = touched()
    facts = []
    with limited(limit) if rank == 0 else nullcontext():
        torch.cuda.reset_peak_memory_stats()
        for _ in range(2):
            ddp.zero_grad()
            done = vram.micro_batches(batch, lambda part: loss_of(ddp, part), model=ddp)
            found = gradients(ddp)
            facts.append({"size": done.size, "retries": done.retries, "difference": difference(found, expected)})
        peak = torch.cuda.max_memory_reserved()
    train(ddp, batch)  # DDP's own way still works
    own = difference(gradients(ddp), expected)
    result = {"batches": facts, "own": own, "peak": peak, "limit": limit, "others": [before, touched()]}
    dist.barrier(device_ids=[rank])
    print(json.dumps(result), flush=True)
    os._exit(0)  # gloo's threads may abort the process of the rank that closes last


if __name__ == "__main__":
    main()

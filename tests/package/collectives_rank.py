"""One of two processes that train with torch.distributed over gloo, recorded: FOLDER RANK PORT."""

from __future__ import annotations

import ctypes
import os
import sys
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_reduce as functional_all_reduce

import vram
from vram._library import library
from vram._prototypes import EVENT_ALLOC, EVENT_FREE, Event

folder, rank, port = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank), WORLD_SIZE="2")
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 32, bias=False))
values = torch.full((1000,), float(rank + 1))


def step() -> None:
    loss = model(torch.ones(4, 64)).sum()
    loss.backward()  # the reducer, in C++
    model.zero_grad()
    dist.all_reduce(values)


with vram.record(folder / "run.vtrace") as recording:
    for _ in range(5):
        vram.step()
        # Something of a device, so that there is a device to report.
        for kind in (EVENT_ALLOC, EVENT_FREE):
            event = Event(kind=kind, device=0, address=1 << 21, size_bytes=512)
            library().vram_record_event(ctypes.byref(event))
        step()
    vram.step()
    gathered = [torch.empty(10) for _ in range(2)]
    dist.all_gather(gathered, torch.ones(10))
    with torch.inference_mode():
        dist.broadcast(torch.ones(3), 0)
    functional_all_reduce(torch.ones(7), "sum", [0, 1]).add(1)
    pair = dist.new_group([0, 1], group_desc="pair")
    work = dist.all_reduce(torch.ones(5, dtype=torch.float64), group=pair, async_op=True)
    assert work is not None
    work.wait(timedelta(seconds=60))
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.ones(2), (9,))
    dist.all_reduce(sparse, group=dist.new_group([0, 1], group_desc="sparse"))
    if rank == 0:
        dist.send(torch.ones(11), 1)
    else:
        dist.recv(torch.ones(11), 0)
    dist.barrier()
assert float(values[0]) == 3 * 2**4, values[0]
dist.all_reduce(values)  # no longer recorded

# A function of the program's own in the same place is called by a recording, too.
seen: list[object] = []
key = torch._C.DispatchKey.BackendSelect


def of_program(keyset: torch._C.DispatchKeySet, *args: object) -> object:
    seen.append(args)
    after = torch._C._dispatch_keyset_full_after(key)
    return torch.ops.c10d.broadcast_.default.redispatch(keyset & after, *args)


with torch.library._scoped_library("c10d", "IMPL") as own:
    own.impl("broadcast_", of_program, key.name, with_keyset=True)
    with vram.record(folder / "own.vtrace"):
        dist.broadcast(torch.ones(3), 0)
    dist.broadcast(torch.ones(3), 0)
assert len(seen) == 2, seen
dist.destroy_process_group()
print("lost", recording.lost)

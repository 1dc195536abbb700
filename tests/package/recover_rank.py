"""One rank of two: DistributedDataParallel over gloo on the CPU, with injected failures. Run by test_recover_ranks.py.

recover_rank.py RANK FILE ROUNDS     FILE: the rendezvous of the ranks
"""

from __future__ import annotations

import copy
import gc
import os
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from oom_injection import Injector, relative_difference
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import vram

Batch = tuple[torch.Tensor, torch.Tensor]


class Net(nn.Module):
    """With a buffer that DDP sends with the first forward, and a part that not every rank uses in each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.sometimes = nn.Linear(8, 8)
        self.never = nn.Linear(2, 2)
        self.last = nn.Linear(8, 1)
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.zeros(8))

    def forward(self, x: torch.Tensor, through: bool) -> torch.Tensor:
        x = torch.tanh(self.first(x)) + self.shift
        return self.last(self.sometimes(x) if through else x)  # type: ignore[no-any-return]


def loss_of(model: nn.Module, batch: Batch, through: bool) -> torch.Tensor:
    return nn.functional.mse_loss(model(batch[0], through), batch[1])


def within(injector: Injector, call: Callable[[], Any]) -> Any:
    """In forward and backward only: a failure of the ranks' own talk is none that anybody could agree about."""
    with injector:
        return call()


def run(batch: Batch, ddp: nn.Module, through: bool, injector: Injector) -> vram.MicroBatches:
    return vram.micro_batches(
        batch,
        lambda part: within(injector, lambda: loss_of(ddp, part, through)),
        model=ddp,
        backward=lambda loss: within(injector, loss.backward),
    )


def compare(rank: int, found: nn.Module, expected: nn.Module, what: str) -> None:
    for (name, one), other in zip(found.named_parameters(), expected.parameters(), strict=True):
        if other.grad is None or not other.grad.any():
            assert one.grad is None or not one.grad.any(), (rank, what, name)
        else:
            assert relative_difference(one.grad, other.grad) <= 1e-5, (rank, what, name)


def one_round(rank: int, here: random.Random, both: random.Random, ddp: Any, plain: Any) -> int:
    """Against DDP's own averaging of the full batches. How often this rank failed."""
    case = both.choice(["none", "one", "one", "both"])
    fails = case == "both" or (case == "one" and both.randrange(2) == rank)
    accumulates, both_through = both.random() < 0.3, both.random() < 0.5
    through = both_through or here.random() < 0.5  # on one rank only, perhaps
    if rank == 0:
        ddp.module.shift.fill_(both.random())  # the other rank gets it from this one
        plain.module.shift.copy_(ddp.module.shift)
    else:
        both.random()
    batches = [(torch.randn(n, 6), torch.randn(n, 1)) for n in (here.randint(16, 24), here.randint(16, 24))]
    ddp.zero_grad(), plain.zero_grad()
    raised = 0
    for batch in batches[: 1 + accumulates]:
        last = batch is batches[accumulates]
        with torch.enable_grad() if last else ddp.no_sync():
            failures = (
                [here.randint(1, 40), here.randint(1, 80)][: 1 if accumulates else here.randint(1, 2)] if fails else []
            )
            injector = Injector(failures)
            done = run(batch, ddp, through, injector)
            raised += injector.raised
        with torch.enable_grad() if last else plain.no_sync():
            loss_of(plain, batch, through).backward()  # type: ignore[no-untyped-call]
        facts = [torch.zeros(2, dtype=torch.int64) for _ in range(2)]
        dist.all_gather(facts, torch.tensor([done.retries, done.size if done.count > 1 else 0]))
        (retries, size), (other_retries, other_size) = facts[0].tolist(), facts[1].tolist()
        assert retries == other_retries, facts
        assert not size or not other_size or size == other_size, facts  # 0: a batch smaller than the size agreed on
    compare(rank, ddp.module, plain.module, case)
    assert torch.equal(ddp.module.shift, plain.module.shift)
    return raised


def one_error(rank: int, ddp: Any) -> None:
    """An error other than out of memory, on rank 1 only: rank 0 is notified and does not hang."""

    def step(part: Batch) -> torch.Tensor:
        if rank == 1:
            raise KeyError("mine")
        return loss_of(ddp, part, True)

    with pytest.raises((KeyError, vram.VramError), match="mine" if rank == 1 else "another rank failed"):
        vram.micro_batches((torch.randn(4, 6), torch.randn(4, 1)), step, model=ddp)


def nothing_smaller(rank: int, ddp: Any) -> None:
    def step(part: Batch) -> torch.Tensor:
        if rank == 0:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss_of(ddp, part, True)

    with pytest.raises(torch.OutOfMemoryError, match="of 4, 2, 1; the last" if rank == 0 else "it was another rank"):
        vram.micro_batches((torch.randn(4, 6), torch.randn(4, 1)), step, model=ddp)


def after_ddps_own_step(rank: int) -> None:
    """DDP talks within the next forward then, which a rank that fails before it does not come to."""
    ddp = DistributedDataParallel(nn.Linear(4, 1))
    ddp(torch.randn(4, 4)).sum().backward()
    failures = [1] if rank == 0 else []

    def step(part: torch.Tensor) -> torch.Tensor:
        if failures:
            raise torch.OutOfMemoryError(f"CUDA out of memory, {failures.pop()}")
        return ddp(part).mean()  # type: ignore[no-any-return]

    assert vram.micro_batches(torch.randn(4, 4), step, model=ddp).size == 2
    assert ddp._has_rebuilt_buckets


def main() -> None:
    rank, file, rounds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=40))
    torch.manual_seed(1)
    net = Net()
    both, here, raised = random.Random(7), random.Random(100 + rank), 0
    torch.manual_seed(100 + rank)
    with Injector():  # what PyTorch imports at first use is left out of collections from here on: they'd take the time
        net(torch.randn(2, 6), True).sum().backward()
    net.zero_grad()
    gc.collect()
    gc.freeze()
    for bucket_view in (False, True):
        options: dict[str, Any] = {"find_unused_parameters": True, "gradient_as_bucket_view": bucket_view}
        plain = DistributedDataParallel(copy.deepcopy(net), **options)
        for _ in range(rounds // 2):
            ddp = DistributedDataParallel(copy.deepcopy(net), **options)
            raised += one_round(rank, here, both, ddp, plain)
    one_error(rank, ddp)
    after_ddps_own_step(rank)
    nothing_smaller(rank, DistributedDataParallel(copy.deepcopy(net)))
    loss_of(ddp, (torch.randn(4, 6), torch.randn(4, 1)), True).backward()  # type: ignore[no-untyped-call]  # DDP's own way still works
    dist.barrier()
    print(raised, flush=True)
    os._exit(0)  # gloo's threads may abort the process of the rank that closes last


if __name__ == "__main__":
    main()

"""One rank of two, over gloo on the CPU: memory runs out, or an error occurs, on one rank at each point of a step.

recover_rank_steps.py RANK FILE PART     FILE: the rendezvous of the ranks; PART: a function of PARTS. VRAM_DEEP: all points
"""

from __future__ import annotations

import copy
import faulthandler
import gc
import os
import random
import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812  as PyTorch's own documentation calls it
from recover_allocations import Allocations
from recover_rank_cases import CASES, RANK, Case, Parts, Transposed, loss_of, mlp, plain, xy
from simulated_training import SimulatedTraining, random_model
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import vram

DEEP = bool(os.environ.get("VRAM_DEEP"))
FILE, PART = sys.argv[2], sys.argv[3]


def made(make: Callable[[], Case]) -> Case:
    torch.manual_seed(1)  # modules alike on both
    case = make()
    torch.manual_seed(10 + RANK)
    case.batch = {name: torch.randn_like(tensor) for name, tensor in case.batch.items()}
    return case


def dense(gradient: Tensor | None) -> Tensor | None:
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


def parameters(case: Case) -> list[nn.Parameter]:
    return [parameter for module in case.modules.values() for parameter in module.parameters()]


def expected_of(make: Callable[[], Case]) -> list[Tensor | None]:
    """The mean over the ranks of what the whole batch gives on each, without any wrapper."""
    case = made(make)
    for _ in range(1 + case.earlier):
        case.step(case.modules, case.batch).backward()  # type: ignore[no-untyped-call]
    found: list[Tensor | None] = []
    for parameter in parameters(case):
        here = torch.tensor(float(parameter.grad is not None))
        gradient = dense(parameter.grad)
        total = torch.zeros_like(parameter) if gradient is None else gradient.clone()
        dist.all_reduce(here)
        dist.all_reduce(total)
        found.append(total / 2 if here else None)
    return found


def allocations_of(make: Callable[[], Case]) -> int:
    case = made(make)
    with Allocations() as counted:
        case.step(case.modules, case.batch).backward()  # type: ignore[no-untyped-call]
    most = torch.tensor(counted.count)
    dist.all_reduce(most, op=dist.ReduceOp.MIN)
    return int(most)


def points(count: int, quick: int) -> list[int]:
    if DEEP:
        return list(range(1, count + 1))
    return sorted({1 + (count - 1) * step // (quick - 1) for step in range(quick)})


def run(case: Case, injected: Any, **more: Any) -> tuple[Parts, vram.MicroBatches]:
    parts = case.wrap(case.modules, case.options)
    if case.earlier:
        with parts["net"].no_sync():
            case.step(parts, case.batch).backward()  # type: ignore[no-untyped-call]
    within = injected or nullcontext()

    def step(part: Any) -> Tensor:
        with within:
            return case.step(parts, part)

    def backward(loss: Tensor) -> None:
        with within:
            loss.backward()  # type: ignore[no-untyped-call]

    return parts, vram.micro_batches(case.batch, step, model=list(parts.values()), backward=backward, **more)


def same_on_both(*facts: int) -> None:
    everybody = [torch.zeros(len(facts), dtype=torch.int64) for _ in range(2)]
    dist.all_gather(everybody, torch.tensor(facts, dtype=torch.int64))
    assert torch.equal(*everybody), everybody


def out_of_memory_anywhere() -> None:
    for make in CASES:
        expected, count = expected_of(make), allocations_of(make)
        for failing in (0, 1):
            for point in points(count, 4):
                case = made(make)
                _, done = run(case, Allocations(point) if failing == RANK else None)
                what = (make.__name__, failing, point)
                assert done.count == 2 and done.retries == 1, (what, done)  # noqa: PT018
                for parameter, other in zip(parameters(case), expected, strict=True):
                    gradient = dense(parameter.grad)
                    assert (gradient is None) == (other is None), what
                    if gradient is not None and other is not None:
                        assert float((gradient - other).norm()) <= 1e-6 * float(other.norm()) + 1e-8, what


class Broken(Allocations):  # type: ignore[no-untyped-call]
    error: type[BaseException] = KeyError


def errors_anywhere() -> None:
    """An error other than out of memory, on one rank: both raise it, and DistributedDataParallel works afterwards."""
    count = allocations_of(plain)
    for failing in (0, 1):
        for point in points(count, 5):
            case = made(plain)
            with pytest.raises((KeyError, vram.VramError), match="injected"):  # in the words of the one that failed
                run(case, Broken(point) if failing == RANK else None)
            assert all(parameter.grad is None for parameter in parameters(case))
    parts, _ = run(made(plain), None)
    loss_of(parts, made(plain).batch).backward()  # type: ignore[no-untyped-call]

    def breaks(_part: Any) -> Tensor:
        raise KeyError("injected")

    ddp = DistributedDataParallel(Transposed())
    with pytest.raises(KeyError, match="injected"):
        vram.micro_batches(xy(), breaks, model=ddp)
    ddp.module.shift.fill_(RANK)
    ddp(xy()["x"])
    assert not ddp.module.shift.any()  # rank 0 has sent its buffer, as if there had been no error


def errors_before_the_first_vote() -> None:
    case = made(plain)
    if RANK:
        case.batch["y"] = case.batch["y"][:2]
    with pytest.raises((ValueError, vram.VramError), match="dimension 0"):  # in the words of the one that failed
        run(case, None)
    case = made(plain)

    def weight(part: Any) -> float:
        if RANK:
            raise KeyError("injected")
        return len(part["x"])

    with pytest.raises((KeyError, vram.VramError), match="injected"):
        run(case, Allocations(1), weight=weight)
    with pytest.raises(torch.OutOfMemoryError, match="1 sample at a time"):
        run(made(plain), Allocations(*[1] * 100) if RANK else None)


def refusals() -> None:
    """The same on both ranks, and nothing is sent."""
    net, batch = mlp(), xy()

    def step(part: Any) -> Tensor:
        return F.mse_loss(net(part["x"]), part["y"])

    for model, match in (
        (net, "group=False"),
        (DistributedDataParallel(copy.deepcopy(net), static_graph=True), "static_graph"),
    ):
        with pytest.raises(vram.VramError, match=match):
            vram.micro_batches(batch, step, model=model)
    if RANK:  # by itself
        assert vram.micro_batches(batch, step, model=net, group=False).count == 1

    def compares(part: Any) -> Tensor:
        out = ddp(part["x"])
        return F.cross_entropy(out @ out.T, torch.arange(len(out))) if RANK else F.mse_loss(out, part["y"])

    ddp, raised = DistributedDataParallel(copy.deepcopy(net)), Allocations(1)

    def first_fails(part: Any) -> Tensor:
        with raised:
            return compares(part)

    with pytest.raises(vram.VramError, match="compares samples"):
        vram.micro_batches(batch, first_fails, model=ddp)

    def talks(part: Any) -> Tensor:
        out = ddp(part["x"])
        if RANK:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        dist.all_reduce(out)
        return F.mse_loss(out, part["y"])

    with pytest.raises(vram.VramError, match="communicates with other ranks"):
        vram.micro_batches(batch, talks, model=DistributedDataParallel(copy.deepcopy(net)))
    ddp = DistributedDataParallel(copy.deepcopy(net))  # another step of the same model was silent
    assert vram.micro_batches(batch, lambda part: F.mse_loss(ddp(part["x"]), part["y"]), model=ddp).count == 1
    with pytest.raises(vram.VramError, match="communicates with other ranks"):
        vram.micro_batches(batch, talks, model=ddp)

    if RANK:  # on one of them alone
        ddp.register_comm_hook(None, lambda _state, bucket: bucket.buffer())
    with pytest.raises(vram.VramError, match="communication hook"):
        vram.micro_batches(batch, step, model=ddp)
    sharded = fully_shard(copy.deepcopy(net), mesh=init_device_mesh("cpu", (2,)))
    with pytest.raises(vram.VramError, match="communicates within forward and backward"):
        vram.micro_batches(batch, lambda part: F.mse_loss(sharded(part["x"]), part["y"]), model=sharded)


def batch_sizes() -> None:
    """Both search alike, though their memory differs."""
    rng = random.Random(5)
    for _ in range(400 if DEEP else 40):
        model, capacity = random_model(rng, bends=rng.random() < 0.3)
        own = SimulatedTraining(model, int(capacity * (1 - 0.02 * RANK)))
        found = own.find_batch_size(group=dist.group.WORLD)
        same_on_both(found.batch_size, len(found.trials), *own.steps)
        assert own.fits(found.batch_size, own.capacity)

    def talks(_batch_size: int) -> None:
        dist.all_reduce(torch.zeros(1))

    ddp = DistributedDataParallel(nn.Linear(2, 1))
    for trial in (talks, lambda size: ddp(torch.randn(size, 2)).sum().backward()):
        with pytest.raises(vram.VramError, match="communicates with other ranks"):
            Talking().find_batch_size(trial, group=dist.group.WORLD)
    with pytest.raises(vram.VramError, match="group=False"):
        Talking().find_batch_size(talks)


class Talking(SimulatedTraining):
    """Whose trial is PyTorch's."""

    def __init__(self) -> None:
        super().__init__(random_model(random.Random(6))[0], 1 << 40)

    def silent(self, reason: str) -> Any:
        from vram._frameworks._torch_modes import Silent

        return Silent(reason)


def functions() -> None:
    seen: list[int] = []

    @vram.retry_on_oom(group=dist.group.WORLD)
    def evaluate(batch: Tensor) -> Tensor:
        seen.append(len(batch))
        if RANK and len(batch) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return batch * 2

    batch = torch.arange(16.0)
    assert torch.equal(evaluate(batch), batch * 2)
    seen.clear()
    assert torch.equal(evaluate(batch), batch * 2)
    assert seen == [4, 4, 4, 4]  # though rank 0 had room for all

    @vram.retry_on_oom(group=dist.group.WORLD)
    def talks(batch: Tensor) -> Tensor:
        dist.all_reduce(batch)
        return batch

    with pytest.raises(vram.VramError, match="communicates with other ranks"):
        talks(torch.zeros(4))

    @vram.retry_on_oom
    def talks_after_it_failed(batch: Tensor) -> Tensor:
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        dist.all_reduce(batch)
        return batch

    with pytest.raises(vram.VramError, match="communicates with other ranks"):
        talks_after_it_failed(torch.zeros(4))

    weight = nn.Parameter(torch.ones(1))

    @vram.retry_on_oom(group=dist.group.WORLD)
    def trains(batch_size: int) -> int:
        (weight * batch_size).sum().backward()  # type: ignore[no-untyped-call]
        if RANK and batch_size > 4:
            raise torch.OutOfMemoryError("CUDA out of memory (simulated)")
        return batch_size

    assert trains(8) == 4
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0]  # on rank 0, too, where 8 had worked
    with pytest.raises((torch.OutOfMemoryError, vram.VramError), match="can't be undone"):
        trains(8)


PARTS: list[Callable[[], None]] = [
    out_of_memory_anywhere,
    errors_anywhere,
    errors_before_the_first_vote,
    refusals,
    batch_sizes,
    functions,
]


def main() -> None:
    faulthandler.dump_traceback_later(1700 if DEEP else 230, exit=True)  # says where it waits
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{FILE}", rank=RANK, world_size=2, timeout=timedelta(seconds=60))
    gc.collect()
    gc.freeze()
    next(part for part in PARTS if part.__name__ == PART)()
    dist.barrier()
    print("END", flush=True)
    print("END", flush=True)
    os._exit(0)  # gloo's threads may abort the process of the rank that closes last


if __name__ == "__main__":
    main()

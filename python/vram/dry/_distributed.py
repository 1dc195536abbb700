"""Ranks that do not exist: every process group of a dry run is PyTorch's fake one, in which this process is rank 0."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from vram._texts import tr
from vram.dry import _pipelines
from vram.dry._guard import lacks_gpu
from vram.dry._lines import warn
from vram.dry._mode import DryMode
from vram.dry._patches import Patches
from vram.dry._ranks import launched
from vram.dry._values import DryRunError


@contextlib.contextmanager
def fake_ranks(world_size: int, patches: Patches, mode: DryMode) -> Iterator[None]:
    """Let the program initialize process groups of any backend; with more than one rank, the default one exists."""
    distributed = torch.distributed
    if not distributed.is_available():
        yield
        return
    if distributed.is_initialized():
        _leave_out_propagation(patches, mode)
        yield
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    before = distributed.init_process_group

    def init(*_arguments: Any, world_size: int = world_size, **named: Any) -> None:
        if not distributed.is_initialized():
            _leave_out_propagation(patches, mode)
            ranks = world_size if world_size > 1 else int(os.environ.get("WORLD_SIZE", "1"))
            before(backend="fake", store=FakeStore(), rank=0, world_size=ranks, **_kept(named))

    patches.put(distributed, "init_process_group", init)
    _answer_reducers(patches)
    _pass_objects(patches)
    _spawn_the_first(patches)
    _pipelines.put_in_place(patches)
    environment = launched(world_size) if world_size > 1 else contextlib.nullcontext()
    if world_size > 1:
        init()
    try:
        with environment:
            yield
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


class _Ended:
    """The processes of torch.multiprocessing.spawn(join=False)."""

    processes: tuple[Any, ...] = ()

    def join(self, *_arguments: Any, **_named: Any) -> bool:
        return True

    def pids(self) -> list[int]:
        return []


def _spawn_the_first(patches: Patches) -> None:
    """Let torch.multiprocessing.spawn() run the first of its processes in this one: the others are ranks that do not exist."""

    def spawn(fn: Any, args: Any = (), nprocs: int = 1, join: bool = True, *_arguments: Any, **_named: Any) -> Any:
        warn(tr("a dry run follows one of the {} processes of torch.multiprocessing.spawn(), the first").format(nprocs))
        fn(0, *args)
        return None if join else _Ended()

    for name in ("spawn", "start_processes"):
        patches.put(torch.multiprocessing, name, spawn)


def _leave_out_propagation(patches: Patches, mode: DryMode) -> None:
    """Count nothing while DTensors find out the shapes of results: they run operators with fake tensors of the size of all ranks."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    propagate = ShardingPropagator._propagate_tensor_meta_non_cached

    @functools.wraps(propagate)
    def uncounted(propagator: Any, schema: Any) -> Any:
        with mode.uncounted():
            return propagate(propagator, schema)

    patches.put(ShardingPropagator, "_propagate_tensor_meta_non_cached", uncounted)
    dispatch = importlib.import_module("torch.distributed.tensor._dispatch")
    patches.put_where_found(dispatch, {"run_dtensor_rng_op": _drawn})


def _drawn(_start: int, _end: int, operator: Any, *arguments: Any, **named: Any) -> Any:
    """Run an operator that draws numbers for a part of a DTensor, without the offsets of this rank and of the next operator in the stream of numbers."""
    return operator(*arguments, **named)


def _pass_objects(patches: Patches) -> None:
    """Let collectives of Python objects pass those of this rank: PyTorch sends them as tensors, whose values a dry run does not have."""

    def all_gather_object(object_list: Any, obj: Any, *_arguments: Any, **_named: Any) -> None:
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj: Any, object_gather_list: Any = None, *_arguments: Any, **_named: Any) -> None:
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def scatter_object_list(
        scatter_object_output_list: Any, scatter_object_input_list: Any = None, *_arguments: Any, **_named: Any
    ) -> None:
        if scatter_object_input_list:
            scatter_object_output_list[0] = scatter_object_input_list[0]

    def broadcast_object_list(*_arguments: Any, **_named: Any) -> None: ...

    for module in (torch.distributed, torch.distributed.distributed_c10d):
        for each in (all_gather_object, gather_object, scatter_object_list, broadcast_object_list):
            patches.put(module, each.__name__, each)


class _Silent:
    """Stands in for the logger of a DistributedDataParallel, which measures times on the GPU."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_arguments: None


def _answer_reducers(patches: Patches) -> None:
    """Let DistributedDataParallel reduce its gradients: fake groups end their work without a result, which it expects."""
    parallel = torch.nn.parallel.DistributedDataParallel
    before, register = parallel.__init__, parallel.register_comm_hook

    def reduced(_state: Any, bucket: Any) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    reduced.__annotations__.clear()  # PyTorch accepts only its own types there

    def init(model: Any, *args: Any, **kwargs: Any) -> None:
        if lacks_gpu():  # its reducer measures times on the GPU in the first iterations, whatever its logger is
            raise DryRunError(
                tr(
                    "DistributedDataParallel of a build of PyTorch for CUDA cannot be run without a GPU; use a build for the CPU, or torch.distributed.fsdp.fully_shard"
                )
            )
        before(model, *args, **kwargs)
        register(model, None, reduced)
        model.logger = _Silent()

    patches.put(parallel, "__init__", init)
    patches.put(
        parallel,
        "register_comm_hook",
        lambda _model, _state, hook: warn(
            tr("a dry run does not run communication hooks: {} is left out").format(hook)
        ),
    )
    # It compares the shapes of all ranks by their values.
    patches.put(torch.nn.parallel.distributed, "_verify_param_shape_across_processes", lambda *_arguments: None)


def _kept(named: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in named.items() if key in ("timeout", "group_name")}

"""The GPU that a program finds in torch.cuda during a dry run: its properties, its streams and events, its memory's figures.

Nothing here runs anything: streams keep no order, events are always complete. The current stream counts, because blocks of
different streams do not share memory.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from vram._texts import tr
from vram.dry._gpu import Gpu
from vram.dry._lines import users_line
from vram.dry._memory import Figures, nothing
from vram.dry._mode import Streams
from vram.dry._patches import Patches
from vram.dry._tape import Tape
from vram.dry._values import DryRunError

_numbers = itertools.count(1)  # of the streams


def _index(device: Any) -> int:
    if device is None:
        return 0
    if isinstance(device, int):
        return max(device, 0)
    return torch.device(device).index or 0


class Stream:
    """Stands in for torch.cuda.Stream."""

    def __init__(self, device: Any = None, priority: int = 0, *, number: int | None = None, **_others: Any) -> None:
        self.device = torch.device("cuda", _index(device))
        self.device_index, self.device_type = self.device.index, 1
        self.priority = priority
        self.cuda_stream = self.stream_id = next(_numbers) if number is None else number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def wait_event(self, event: Any) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return Event() if event is None else event

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self) -> None: ...


class Event:
    """Stands in for torch.cuda.Event. Its times are the host's."""

    def __init__(self, *_arguments: Any, **_named: Any) -> None:
        self._time = time.perf_counter()
        self.device = torch.device("cuda", 0)
        self.cuda_event = 0

    def record(self, stream: Any = None) -> None:  # noqa: ARG002
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Any) -> float:
        return max(float((end._time - self._time) * 1e3), 1e-3)

    def synchronize(self) -> None: ...

    def ipc_handle(self) -> bytes:
        return b""


class Generator(torch._C.Generator):
    """A generator of the CPU, which says that it is the GPU's if the program wanted one there."""

    def __new__(cls, device: Any = "cpu") -> Any:
        made: Any = super().__new__(cls, device="cpu")  # type: ignore[call-arg]
        made._place = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._place  # type: ignore[no-any-return,attr-defined]


def _properties(gpu: Gpu) -> SimpleNamespace:
    return SimpleNamespace(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.total_bytes,
        multi_processor_count=gpu.processors,
        max_threads_per_multi_processor=2048,
        max_threads_per_block=1024,
        warp_size=32,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10,
        L2_cache_size=50 << 20,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
        uuid="",
    )


def _streams(streams: Streams) -> dict[str, Any]:
    def current(device: Any = None) -> Stream:
        return Stream(device, number=streams.current)

    def set_stream(stream: Any) -> None:
        if stream is not None:
            streams.current = stream.stream_id

    @contextlib.contextmanager
    def use(stream: Any) -> Iterator[None]:
        before = streams.current
        set_stream(stream)
        try:
            yield
        finally:
            streams.current = before

    return {
        "Stream": Stream,
        "Event": Event,
        "current_stream": current,
        "default_stream": lambda device=None: Stream(device, number=0),
        "set_stream": set_stream,
        "stream": use,
        "StreamContext": use,
        "synchronize": lambda _device=None: None,
    }


def _devices(gpu: Gpu, count: int) -> dict[str, Any]:
    properties = _properties(gpu)
    now = [0]

    def set_device(device: Any) -> None:
        index = _index(device)
        if index >= count:
            raise RuntimeError(f"a dry run of {count} GPU(s) has no device {index}; state world_size or use device 0")
        now[0] = index

    @contextlib.contextmanager
    def device_context(device: Any) -> Iterator[None]:
        before = now[0]
        set_device(device)
        try:
            yield
        finally:
            now[0] = before

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda _call, **_named: None,
        "device_count": lambda: count,
        "current_device": lambda: now[0],
        "set_device": set_device,
        "device": device_context,
        "get_device_properties": lambda _device=None: properties,
        "get_device_capability": lambda _device=None: gpu.capability,
        "get_device_name": lambda _device=None: f"NVIDIA {gpu.name}",
        "get_arch_list": lambda: [f"sm_{gpu.capability[0]}{gpu.capability[1]}"],
        "is_bf16_supported": lambda including_emulation=True: including_emulation or gpu.capability >= (8, 0),
        "can_device_access_peer": lambda _device, _peer: True,
        "manual_seed": lambda _seed: None,
        "manual_seed_all": lambda _seed: None,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "initial_seed": lambda: 0,
        "get_rng_state": lambda _device="cuda": torch.get_rng_state(),
        "set_rng_state": lambda _state, _device="cuda": None,
        "get_rng_state_all": lambda: [torch.get_rng_state()] * count,
        "set_rng_state_all": lambda _states: None,
        "utilization": lambda _device=None: 0,
        "ipc_collect": lambda: None,
        "is_current_stream_capturing": lambda: False,
        "set_sync_debug_mode": lambda _mode: None,
        "get_sync_debug_mode": lambda: 0,
        "get_allocator_backend": lambda: "native",
    }


def _scatter(tensor: Any, devices: list[int], sizes: Any, dim: int, streams: Any) -> list[Any]:
    """Divide a tensor among GPUs, as DataParallel does, also if there is one. A build for the CPU has no such function."""
    parts = tensor.chunk(len(devices), dim) if sizes is None else tensor.split(sizes, dim)
    found = []
    for part, device, stream in zip(parts, devices, streams or [None] * len(devices)):
        with torch.cuda.stream(stream):
            found.append(part.to(torch.device("cuda", device), non_blocking=True))
    return found


class _NoGraph:
    """Refuses a CUDA graph: its memory is in a pool of its own, which stays as long as the graph. A class, since libraries name it as a type."""

    def __new__(cls, *_arguments: Any, **_named: Any) -> Any:
        raise DryRunError(
            tr(
                "{}: a dry run does not capture CUDA graphs, whose memory it cannot predict; leave the capture out of the dry run"
            ).format(users_line())
        )


def _name_the_device(patches: Patches, current: Any) -> None:
    """Let to("cuda") name the current device: PyTorch would ask CUDA, which a build for the CPU does not have."""

    def named(device: Any) -> Any:
        if isinstance(device, int) and not isinstance(device, bool):
            return torch.device("cuda", device)
        if isinstance(device, (str, torch.device)):
            device = torch.device(device)
            return torch.device("cuda", current()) if device.type == "cuda" and device.index is None else device
        return device

    to = torch.Tensor.to

    def to_device(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (named(args[0]), *args[1:])
        if "device" in kwargs:
            kwargs["device"] = named(kwargs["device"])
        return to(tensor, *args, **kwargs)

    def cuda(tensor: Any, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        return to(tensor, named("cuda" if device is None else device), non_blocking=non_blocking, **kwargs)

    patches.put(torch.Tensor, "to", to_device)
    patches.put(torch.Tensor, "cuda", cuda)


def put_in_place(patches: Patches, gpu: Gpu, count: int, context_bytes: int, tape: Tape, streams: Streams) -> None:
    """Let the program find `count` GPUs of this kind."""
    figures = Figures(gpu, tape, context_bytes, _index)
    memory = figures.of_cuda
    everything = {**_devices(gpu, count), **_streams(streams), **memory}
    patches.put_where_found(torch.cuda, everything)
    patches.put_where_found(torch.cuda.memory, memory)
    graphs = dict.fromkeys(("CUDAGraph", "graph", "make_graphed_callables"), _NoGraph)
    patches.put_where_found(torch.cuda, graphs)
    patches.put_where_found(torch.cuda.graphs, graphs)
    patches.put_where_found(torch.cuda.random, everything)
    patches.put_where_found(
        torch.cuda.nvtx, dict.fromkeys(("range_push", "range_pop", "range_start", "range_end", "mark"), nothing)
    )
    patches.put(torch, "Generator", Generator)
    if torch.version.cuda is None:
        patches.put(torch._C, "_scatter", _scatter)
        patches.put(torch.nn.parallel._functions, "_get_stream", functools.cache(Stream))
    _name_the_device(patches, everything["current_device"])
    patches.put_where_found(torch._C, {"_get_accelerator": lambda _check=None: torch.device("cuda")})
    # The device that torch.accelerator and modules for any device ask about.
    patches.put_where_found(
        torch.accelerator,
        {
            "is_available": lambda: True,
            "device_count": lambda: count,
            "current_accelerator": lambda check_available=False: torch.device("cuda"),  # noqa: ARG005
            "current_device_index": everything["current_device"],
            "current_device_idx": everything["current_device"],
            "set_device_index": everything["set_device"],
            "set_device_idx": everything["set_device"],
            "device_index": everything["device"],
            "synchronize": lambda _device=None: None,
            **figures.of_accelerator,
            "current_stream": everything["current_stream"],
            "set_stream": everything["set_stream"],
        },
    )
    for module in filter(None, [getattr(torch.accelerator, "memory", None)]):  # of PyTorch 2.9 and later
        patches.put_where_found(module, figures.of_accelerator)
    # The CPU has no pinned memory here, and needs none.
    patches.put(torch.Tensor, "pin_memory", lambda tensor, *_arguments, **_named: tensor)
    patches.put(torch.Tensor, "record_stream", lambda _tensor, _stream: None)

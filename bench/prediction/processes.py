"""Processes of the measurements: forks that share one import of PyTorch, and what they have on the device."""

from __future__ import annotations

import ctypes
import gc
import json
import lzma
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A process that runs this long after the last start is ended, so that the results of the others come back.
GRACE_S = 45.0
# PyTorch counts the GPUs through NVML then; through CUDA, it could not be used after a fork.
ENVIRONMENT = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def save(path: Path, found: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wt", preset=1) as file:
        json.dump(found, file, separators=(",", ":"))


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def nvml() -> dict[str, int | None]:
    """Returns the bytes in use on device 0 and those of this process, by NVML, which needs no context.

    In some containers, NVML lists processes by other numbers: then the only process of the device is taken for this one.
    """
    try:
        library, device, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), _Memory()
    except OSError:
        return {"device_used_nvml": None, "process": None}
    library.nvmlInit_v2()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    failed = library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
    count, processes = ctypes.c_uint(64), (_Process * 64)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes):
        count.value = 0
    found = {process.pid: process.used for process in processes[: count.value] if process.used < 1 << 60}
    own = found.get(os.getpid(), next(iter(found.values())) if len(found) == 1 else None)
    return {"device_used_nvml": None if failed else memory.used, "process": own}


def now() -> dict[str, Any]:
    import torch

    if not torch.cuda.is_available():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "device_used": total - free,
        **nvml(),
        "reserved": torch.cuda.memory_reserved(),
        "allocated": torch.cuda.memory_allocated(),
    }


def _run(task: Callable[[], None]) -> None:
    try:
        task()
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = 1
    sys.stdout.flush()
    os._exit(code)


def _initialize_cuda() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.init()


def _start_method() -> str:
    """Returns "fork", or "spawn" if an import has initialized CUDA, which no fork can use then."""
    trial = multiprocessing.get_context("fork").Process(target=_run, args=(_initialize_cuda,))
    trial.start()
    trial.join()
    return "spawn" if trial.exitcode else "fork"


def run_forked(title: str, tasks: list[tuple[str, Callable[[], None]]], jobs: int, seconds: float) -> int:
    """Runs each task in a fork of this process, `jobs` at once; returns how many failed.

    Args:
        title: of the line that is printed at the end.
        seconds: no task starts later; those that run `GRACE_S` longer are ended.
    """
    gc.freeze()
    context: Any = multiprocessing.get_context(_start_method())
    started, queue, failed = time.monotonic(), [*tasks], []
    running: dict[str, Any] = {}
    while queue or running:
        over = time.monotonic() - started - seconds
        while queue and len(running) < jobs and over < 0:
            name, task = queue.pop(0)
            running[name] = context.Process(target=_run, args=(task,))
            running[name].start()
        if over >= 0:
            failed += [f"{name} (not started)" for name, _ in queue]
            queue.clear()
        for name, process in [*running.items()]:
            process.join(0.02)
            if process.exitcode is None and over > GRACE_S:
                process.kill()
                process.join()
            if process.exitcode is not None:
                del running[name]
                failed += [name] if process.exitcode else []
    took = time.monotonic() - started
    print(
        f"{title}: {len(tasks)} in {took:.0f} s ({context.get_start_method()}); failed: {', '.join(failed) or 'none'}",
        flush=True,
    )
    return len(failed)

"""Which plans cuDNN has for a convolution, by cuDNN itself: the workspaces of its engines, in the order in which PyTorch tries them.

PyTorch for CUDA brings the library. On a machine with a GPU, nothing has to be estimated then: cuDNN answers for this GPU, or (from 9.11 on) for
another one, from a description. It runs in a process of its own (_cudnn_answers.py), which a dry run starts for its first convolution and
ends with itself: a context of the GPU would stay in this process.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from vram.dry._gpu import Gpu

_ANSWERS = Path(__file__).with_name("_cudnn_answers.py")
_OLDEST_VERSION = 91100
# The cuDNN of PyTorch's packages for CUDA 13.
_VERSIONS = {(2, 11): 91900}
# What the library opens by name while it answers, and the library; it ends the process if one is missing.
_LIBRARIES = ("libcublasLt.so.*", "libnvrtc.so.*", "libcudnn.so.9")

# What CUDA reports of a generation: shared memory of a block, threads and blocks of a processor, and the L2 cache.
_GENERATIONS = {
    (7, 5): (65536, 1024, 16, 5 << 20),
    (8, 0): (166912, 2048, 32, 40 << 20),
    (8, 6): (101376, 1536, 16, 6 << 20),
    (8, 9): (101376, 1536, 24, 72 << 20),
    (9, 0): (232448, 2048, 32, 50 << 20),
    (12, 0): (101376, 1536, 24, 96 << 20),
}


def description(gpu: Gpu) -> str | None:
    """Return what cuDNN wants to know of a GPU, or None for a generation that is not listed here."""
    if gpu.capability not in _GENERATIONS:
        return None
    shared_bytes, threads, blocks, cache_bytes = _GENERATIONS[gpu.capability]
    major, minor = gpu.capability
    return json.dumps(
        {
            "deviceName": gpu.name,
            "deviceVer": 100 * major + 10 * minor,
            "driverVer": 13000,
            "cudaDeviceId": 0,
            "pciDeviceId": 0,
            "isTccDriver": 0,
            "supportCoopLaunch": 1,
            "multiProcessorCount": gpu.processors,
            "totalGlobalMem": gpu.total_bytes,
            "maxGridSize": [2147483647, 65535, 65535],
            "maxBlockSize": [1024, 1024, 64],
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerSM": threads,
            "maxCtasPerSM": blocks,
            "warpSize": 32,
            "regsPerBlock": 65536,
            "maxRegistersPerSM": 65536,
            "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": shared_bytes,
            "reservedSharedMemoryPerBlock": 1024 if major >= 8 else 0,
            "l2CacheSize": cache_bytes,
            "smClockRateKHz": 1980000,
            "memClockRateKHz": 2619000,
        }
    )


def _files(pattern: str) -> list[Path]:
    """Return the libraries of NVIDIA's packages that match."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or []) if spec else []
    return sorted(path for folder in folders for path in Path(folder).glob(f"*/lib/{pattern}"))


def _loaded(name: str) -> Path | None:
    """Return the library of this name that PyTorch, or something else in this process, has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    return next(
        (Path(path) for line in lines if (path := line[line.find("/") :]).rpartition("/")[2].startswith(name)), None
    )


def libraries() -> list[Path]:
    """Return cuDNN, after what it needs, as PyTorch has loaded it or as NVIDIA's packages have it; [] if something is missing."""
    found = []
    for pattern in _LIBRARIES:
        path = _loaded(pattern.removesuffix("*")) or next(iter(_files(pattern)[-1:]), None)
        if path is None:
            return []
        found.append(path)
    return found


def _is_of(version: int, torch_version: str) -> bool:
    """Whether a PyTorch comes with this cuDNN, as far as is known. Engines and workspaces change from release to release."""
    import torch

    wanted = _release(torch_version)
    if torch.version.cuda and wanted == _release(torch.__version__):
        return True
    return wanted not in _VERSIONS or version // 100 == _VERSIONS[wanted] // 100


def _release(torch_version: str) -> tuple[int, ...]:
    return tuple(map(int, torch_version.split(".")[:2]))


class Plans:
    """cuDNN's answers for one GPU. The process starts with the first question, and ends with close()."""

    def __init__(self, paths: list[Path], device: str, torch_version: str) -> None:
        self._command = [sys.executable, str(_ANSWERS), *map(str, paths), device]
        self._torch_version = torch_version
        self._process: subprocess.Popen[str] | None = None
        self._has_started = self._answers = self._is_exact = False

    @classmethod
    def load(cls, gpu: Gpu, torch_version: str) -> Plans | None:
        """Return the answers for a GPU, or None where cuDNN is missing or the GPU is of an unknown generation."""
        paths, device = libraries(), description(gpu)
        return cls(paths, device, torch_version) if paths and device is not None else None

    @property
    def is_open(self) -> bool:
        """Whether there are answers: this machine has a GPU, and the cuDNN of this PyTorch."""
        self._start()
        return self._answers

    @property
    def is_exact(self) -> bool:
        """Whether the GPU is on this machine, so that the answers are those that PyTorch gets."""
        self._start()
        return self._is_exact

    def _start(self) -> None:
        if self._has_started:
            return
        self._has_started = True
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        about = self._read()
        if about is None or about["version"] < _OLDEST_VERSION or not _is_of(about["version"], self._torch_version):
            self.close()
        else:
            self._answers, self._is_exact = True, about["is_here"]

    def _read(self) -> Any:
        """Return the next answer, or None if the process has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def workspaces(
        self, direction: str, dtype: str, is_last: bool, x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...],
        stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...], allow_tf32: bool,
    ) -> tuple[int, ...]:  # fmt: skip
        """Return the bytes of the workspace of each plan, in order, up to the first that needs none; () if cuDNN has no answer.

        `x` and `y` are the input and the output of a plain convolution, or the output and the input of a transposed one.
        """
        if len(x) == 3:  # PyTorch makes it two-dimensional
            x, weight, y = ((*shape[:2], 1, *shape[2:]) for shape in (x, weight, y))
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        question = direction, dtype, is_last, x, weight, y, stride, padding, dilation, allow_tf32
        key = (self._command[-1], self._torch_version, self.is_exact, *question)
        if key not in _known:
            _known[key] = tuple(self._asked(question))
        return _known[key]

    def _asked(self, question: tuple[Any, ...]) -> list[int]:
        if self._process is None:
            return []
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return self._read() or []
        except (BrokenPipeError, json.JSONDecodeError):
            return []

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


# Answers of all processes, since a search for a batch size asks the same again.
_known: dict[tuple[Any, ...], tuple[int, ...]] = {}

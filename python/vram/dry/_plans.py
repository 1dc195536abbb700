"""Which plans cuDNN has for a convolution, by cuDNN itself: the workspaces of its engines, in the order in which PyTorch tries them.

PyTorch for CUDA brings the library. On a machine with a GPU, nothing has to be estimated then: cuDNN answers for this GPU, or (from 9.11 on) for
another one, from a description. It runs in a process of its own (_cudnn_answers.py), which a dry run starts for its first convolution and
ends with itself: a context of the GPU would stay in this process. If it does not answer in time, ends, or answers what cannot be read, the
dry run continues without it, with a warning.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vram._texts import tr
from vram.dry._gpu import Gpu
from vram.dry._lines import warn

_ANSWERS = Path(__file__).with_name("_cudnn_answers.py")
_OLDEST_VERSION = 91100
# Seconds. Loading the libraries from a network drive and making a context on a busy machine take long; a process that hangs costs this once.
_START_TIMEOUT, _ANSWER_TIMEOUT, _END_TIMEOUT = 120.0, 60.0, 5.0
_MAX_ANSWER_BYTES = 1 << 16
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


class _Process:
    """The process that asks cuDNN. Each wait for it has a time limit.

    Its standard input and output are a socket: writing to a pipe whose reader has ended would end a program that lets SIGPIPE do so.
    """

    def __init__(self, command: list[str]) -> None:
        """Raise OSError: the process cannot be started."""
        self._socket, other = socket.socketpair()
        self._received = b""
        self._owner = os.getpid()
        with other:
            try:
                # A session of its own: Ctrl-C is for the program, which may handle it and continue.
                self._process = subprocess.Popen(
                    command,
                    stdin=other.fileno(),
                    stdout=other.fileno(),
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                self._socket.close()
                raise

    def ask(self, question: Any) -> None:
        """Raise OSError: the process has ended, or does not read."""
        self._socket.settimeout(_ANSWER_TIMEOUT)
        self._socket.sendall(json.dumps(question).encode() + b"\n", socket.MSG_NOSIGNAL)

    def answer(self, timeout: float) -> Any:
        """Return the next line.

        Raises:
            EOFError, OSError: The process has ended.
            socket.timeout: There is no line within `timeout` seconds.
            ValueError: It is not JSON, or too long.
        """
        deadline = time.monotonic() + timeout
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0:
                raise socket.timeout
            self._socket.settimeout(left)
            part = self._socket.recv(_MAX_ANSWER_BYTES)
            if not part:
                raise EOFError
            self._received += part
            if len(self._received) > _MAX_ANSWER_BYTES:
                raise ValueError
        line, _, self._received = self._received.partition(b"\n")
        return json.loads(line)

    @property
    def is_ours(self) -> bool:
        """Whether this process started it, and not the one that this process was forked from."""
        return self._owner == os.getpid()

    def end(self) -> None:
        """Kill the process: it has nothing to complete, and may hang."""
        self._socket.close()
        if self.is_ours:
            self._process.kill()
            # The driver can keep a process that was killed; the subprocess module collects it later.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_TIMEOUT)


def _is_greeting(line: Any) -> bool:
    kinds = {"version": int, "is_here": bool}
    return isinstance(line, dict) and all(isinstance(line.get(name), kind) for name, kind in kinds.items())


def _is_answer(line: Any) -> bool:
    return isinstance(line, list) and all(type(size) is int and size >= 0 for size in line)


class Plans:
    """cuDNN's answers for one GPU. The process starts with the first question, and ends with close()."""

    def __init__(self, paths: list[Path], device: str, torch_version: str) -> None:
        # Without the packages and the start-up code of the program's environment.
        self._command = [sys.executable, "-I", "-S", str(_ANSWERS), *map(str, paths), device]
        self._torch_version = torch_version
        self._process: _Process | None = None
        self._has_started = self._answers = self._is_exact = False

    @classmethod
    def load(cls, gpu: Gpu, torch_version: str) -> Plans | None:
        """Return the answers for a GPU, or None where cuDNN is missing or the GPU is of an unknown generation."""
        paths, device = libraries(), description(gpu)
        return cls(paths, device, torch_version) if paths and device is not None and sys.executable else None

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
        try:
            self._process = _Process(self._command)
        except OSError:
            return
        about = self._next(_START_TIMEOUT, _is_greeting)
        if about is None:
            return
        if about["version"] < _OLDEST_VERSION or not _is_of(about["version"], self._torch_version):
            self.close()
        else:
            self._answers, self._is_exact = True, about["is_here"]

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
        if not self.is_open:
            return ()
        key = (self._command[-1], self._torch_version, self._is_exact, *question)
        if key not in _known:
            answer = self._next(_ANSWER_TIMEOUT, _is_answer, question)
            if answer is None:
                return ()
            _known[key] = tuple(answer)
        return _known[key]

    def _next(self, timeout: float, is_valid: Callable[[Any], bool], question: Any = None) -> Any:
        """Return the answer to a question, or the greeting without one. If there is none, end the process, for which nothing is asked again."""
        process = self._process
        if process is None or not process.is_ours:
            return None
        reason = ""
        try:
            if question is not None:
                process.ask(question)
            line = process.answer(timeout)
            if is_valid(line):
                return line
            reason = tr("it printed an unexpected line")
        except socket.timeout:
            reason = tr("it did not answer within {:.0f} s").format(timeout)
        except ValueError:
            reason = tr("it printed an unexpected line")
        except (OSError, EOFError):
            # Without a GPU it ends before the first question, as expected.
            reason = tr("it ended") if self._answers else ""
        except BaseException:  # of a signal handler: the answer would count for the next question
            self._give_up("")
            raise
        self._give_up(reason)
        return None

    def _give_up(self, reason: str) -> None:
        self.close()
        self._answers = self._is_exact = False
        if reason:
            warn(
                tr(
                    "the process that asks cuDNN about the workspaces of convolutions was ended ({}); they are estimated from here on, "
                    "as on a machine without a GPU"
                ).format(reason)
            )

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.end()


# Answers of all processes, since a search for a batch size asks the same again.
_known: dict[tuple[Any, ...], tuple[int, ...]] = {}

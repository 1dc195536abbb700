"""Which plans cuDNN has for a convolution, by cuDNN itself: the workspaces of its engines, in the order in which PyTorch tries them.

cuDNN (from 9.11 on) answers for a GPU that this machine lacks, from a description of the GPU, and without a driver. So where the library is
installed, as with each PyTorch for CUDA, nothing has to be estimated. PyTorch asks the same questions (aten/src/ATen/native/cudnn/Conv_v8.cpp):
the heuristic engines first, then the others, and it takes the first whose workspace it can allocate.

The numbers of this module are those of cudnn_graph.h.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vram.dry._gpu import Gpu

_SONAME = "libcudnn.so.9"
_OLDEST_VERSION = 91100
# The cuDNN of PyTorch's packages for CUDA 13.
_VERSIONS = {(2, 11): 91900}
# What the library opens by name while it answers. Without them it ends the process.
_NEEDED = ("libcublasLt.so.*", "libnvrtc.so.*")

# cudnnBackendAttributeType_t
_DATA_TYPE, _INT64, _FLOAT, _CONVOLUTION_MODE, _HEURISTIC_MODE, _NOTE, _DESCRIPTOR, _CHAR = 1, 3, 4, 7, 8, 11, 15, 24
_C_TYPES: dict[int, Any] = {_INT64: ctypes.c_int64, _FLOAT: ctypes.c_float, _DESCRIPTOR: ctypes.c_void_p}
# cudnnBackendDescriptorType_t
_CONVOLUTION, _ENGINE, _ENGINE_CONFIG, _HEURISTIC, _PLAN, _GRAPH, _TENSOR, _DEVICE = 1, 2, 3, 4, 5, 15, 17, 38
_OPERATIONS = {"forward": 10, "weight": 11, "data": 12}
# cudnnBackendAttributeName_t: of an operation for the larger side, the smaller side, the weight, the convolution, alpha and beta
_OPERANDS = {
    "forward": (704, 705, 703, 702, 700, 701),
    "data": (710, 711, 709, 708, 706, 707),
    "weight": (716, 717, 715, 714, 712, 713),
}
_COMPUTE_TYPE, _MODE, _DILATIONS, _STRIDES, _POST_PADDINGS, _PRE_PADDINGS, _SPATIAL_DIMS = range(100, 107)
_HEURISTIC_IS, _HEURISTIC_GRAPH, _HEURISTIC_RESULTS, _HEURISTIC_DEVICE = 200, 201, 202, 204
_CONFIG_ENGINE, _PLAN_CONFIG, _PLAN_WORKSPACE, _PLAN_DEVICE, _GRAPH_OPERATIONS = 300, 401, 402, 407, 801
_TENSOR_ALIGNMENT, _TENSOR_TYPE, _TENSOR_SHAPE, _TENSOR_STRIDES, _TENSOR_ID = 900, 901, 902, 903, 906
_ENGINE_NOTES, _DEVICE_JSON = 1303, 2702
# cudnnDataType_t, cudnnBackendNumericalNote_t, cudnnBackendHeurMode_t
_DATA_TYPES = {"float32": 0, "float16": 2, "bfloat16": 9}
_USES_TENSOR_CORES, _CONVERTS_INPUTS = 0, 1
_INSTANT, _FALLBACK = 0, 2
_CROSS_CORRELATION = 1
# PyTorch's blocks begin at multiples of 512 bytes; it states at most this alignment.
_ALIGNMENT = 32
_MAX_NOTES, _MAX_PLANS = 16, 48

# What CUDA reports of a generation: shared memory of a block, threads and blocks of a processor, and the L2 cache.
_GENERATIONS = {
    (7, 5): (65536, 1024, 16, 5 << 20),
    (8, 0): (166912, 2048, 32, 40 << 20),
    (8, 6): (101376, 1536, 16, 6 << 20),
    (8, 9): (101376, 1536, 24, 72 << 20),
    (9, 0): (232448, 2048, 32, 50 << 20),
    (12, 0): (101376, 1536, 24, 96 << 20),
}


class CudnnError(Exception):
    """A call of cuDNN failed."""


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


def _is_loaded(name: str) -> bool:
    """Whether PyTorch, or something else in this process, has loaded a library of this name."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return False
    return f"/{name}" in maps


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return cuDNN as PyTorch has loaded it, or from NVIDIA's packages; None: it is missing, too old, or lacks what it needs."""
    try:
        # In this order: cuDNN finds those that it needs by their names.
        paths = {pattern: _files(pattern) for pattern in (*_NEEDED, _SONAME)}
        for pattern, found in paths.items():
            if not _is_loaded(pattern.removesuffix("*")):
                if not found:
                    return None
                ctypes.CDLL(str(found[-1]), mode=ctypes.RTLD_GLOBAL)
        library = ctypes.CDLL(_SONAME)
        library.cudnnGetVersion.restype = ctypes.c_size_t
        return library if library.cudnnGetVersion() >= _OLDEST_VERSION else None
    except (OSError, AttributeError):
        return None


def _is_of(version: int, torch_version: str) -> bool:
    """Whether a PyTorch comes with this cuDNN, as far as is known. Engines and workspaces change from release to release."""
    import torch

    wanted = _release(torch_version)
    if torch.version.cuda and wanted == _release(torch.__version__):
        return True
    return wanted not in _VERSIONS or version // 100 == _VERSIONS[wanted] // 100


def _release(torch_version: str) -> tuple[int, ...]:
    return tuple(map(int, torch_version.split(".")[:2]))


class _Descriptors:
    """The descriptors of one question, which are destroyed at its end."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._made: list[ctypes.c_void_p] = []

    def __enter__(self) -> _Descriptors:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in reversed(self._made):
            self._library.cudnnBackendDestroyDescriptor(each)

    def empty(self, kind: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        _check(self._library.cudnnBackendCreateDescriptor(kind, ctypes.byref(made)))
        self._made.append(made)
        return made

    def made(self, kind: int, *attributes: tuple[int, int, Sequence[Any] | bytes]) -> ctypes.c_void_p:
        """Return a descriptor with attributes: their names, types and values."""
        descriptor = self.empty(kind)
        for name, value_type, values in attributes:
            array: Any
            if isinstance(values, bytes):
                array = ctypes.create_string_buffer(values)
            else:
                array = (_C_TYPES.get(value_type, ctypes.c_int) * len(values))(*values)
            count = ctypes.c_int64(len(values))
            _check(self._library.cudnnBackendSetAttribute(descriptor, name, value_type, count, array))
        _check(self._library.cudnnBackendFinalize(descriptor))
        return descriptor

    def get(self, descriptor: ctypes.c_void_p, name: int, value_type: int, array: Any, size: int) -> int:
        """Read an attribute into an array, and return how many values there are."""
        count = ctypes.c_int64()
        call = self._library.cudnnBackendGetAttribute
        _check(call(descriptor, name, value_type, ctypes.c_int64(size), ctypes.byref(count), array))
        return count.value


def _check(status: int) -> None:
    if status:
        raise CudnnError(f"cuDNN answered {status}")


class Plans:
    """cuDNN's answers for one GPU."""

    def __init__(self, library: ctypes.CDLL, device: str) -> None:
        self._library = library
        self._kept = _Descriptors(library)
        self._device = self._kept.made(_DEVICE, (_DEVICE_JSON, _CHAR, device.encode()))
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}

    @classmethod
    def load(cls, gpu: Gpu, torch_version: str) -> Plans | None:
        """Return the answers for a GPU, or None where cuDNN is missing, is another one than this PyTorch's, or does not take the description."""
        library, device = _library(), description(gpu)
        if library is None or device is None or not _is_of(int(library.cudnnGetVersion()), torch_version):
            return None
        try:
            return cls(library, device)
        except CudnnError:
            return None

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
        key = direction, dtype, is_last, x, weight, y, stride, padding, dilation, allow_tf32
        if key not in self._known:
            try:
                with _Descriptors(self._library) as descriptors:
                    graph = self._graph(descriptors, *key[:-1])
                    self._known[key] = tuple(
                        self._workspaces(descriptors, graph, not allow_tf32 and dtype == "float32")
                    )
            except CudnnError:
                self._known[key] = ()
        return self._known[key]

    def _graph(
        self, descriptors: _Descriptors, direction: str, dtype: str, is_last: bool, x: tuple[int, ...], weight: tuple[int, ...],
        y: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
    ) -> ctypes.c_void_p:  # fmt: skip
        tensors = [
            descriptors.made(
                _TENSOR,
                (_TENSOR_TYPE, _DATA_TYPE, [_DATA_TYPES[dtype]]),
                (_TENSOR_SHAPE, _INT64, shape),
                (_TENSOR_STRIDES, _INT64, _strides(shape, is_last)),
                (_TENSOR_ID, _INT64, [ord(name)]),
                (_TENSOR_ALIGNMENT, _INT64, [_ALIGNMENT]),
            )
            for name, shape in (("x", x), ("y", y), ("w", weight))
        ]
        convolution = descriptors.made(
            _CONVOLUTION,
            (_COMPUTE_TYPE, _DATA_TYPE, [_DATA_TYPES["float32"]]),
            (_MODE, _CONVOLUTION_MODE, [_CROSS_CORRELATION]),
            (_SPATIAL_DIMS, _INT64, [len(stride)]),
            (_STRIDES, _INT64, stride),
            (_PRE_PADDINGS, _INT64, padding),
            (_POST_PADDINGS, _INT64, padding),
            (_DILATIONS, _INT64, dilation),
        )
        *operands, of_convolution, alpha, beta = _OPERANDS[direction]
        operation = descriptors.made(
            _OPERATIONS[direction],
            *((name, _DESCRIPTOR, [tensor.value]) for name, tensor in zip(operands, tensors)),
            (of_convolution, _DESCRIPTOR, [convolution.value]),
            (alpha, _FLOAT, [1.0]),
            (beta, _FLOAT, [0.0]),
        )
        return descriptors.made(_GRAPH, (_GRAPH_OPERATIONS, _DESCRIPTOR, [operation.value]))

    def _workspaces(
        self, descriptors: _Descriptors, graph: ctypes.c_void_p, without_tensor_cores: bool
    ) -> Iterator[int]:
        number = 0
        for mode in (_INSTANT, _FALLBACK):
            for config in self._configs(descriptors, graph, mode):
                notes = self._notes(config)
                if _CONVERTS_INPUTS in notes or (without_tensor_cores and _USES_TENSOR_CORES in notes):
                    continue
                size_bytes = self._workspace(config)
                if size_bytes is None:
                    continue
                yield size_bytes
                number += 1
                if size_bytes == 0 or number == _MAX_PLANS:
                    return

    def _configs(self, descriptors: _Descriptors, graph: ctypes.c_void_p, mode: int) -> list[ctypes.c_void_p]:
        """Return the engines that cuDNN proposes, best first."""
        try:
            heuristic = descriptors.made(
                _HEURISTIC,
                (_HEURISTIC_GRAPH, _DESCRIPTOR, [graph.value]),
                (_HEURISTIC_IS, _HEURISTIC_MODE, [mode]),
                (_HEURISTIC_DEVICE, _DESCRIPTOR, [self._device.value]),
            )
        except CudnnError:  # no engine
            return []
        count = descriptors.get(heuristic, _HEURISTIC_RESULTS, _DESCRIPTOR, None, 0)
        found = [descriptors.empty(_ENGINE_CONFIG) for _ in range(count)]
        array = (ctypes.c_void_p * count)(*(each.value for each in found))
        return found[: descriptors.get(heuristic, _HEURISTIC_RESULTS, _DESCRIPTOR, array, count)]

    def _notes(self, config: ctypes.c_void_p) -> list[int]:
        with _Descriptors(self._library) as descriptors:
            engine = descriptors.empty(_ENGINE)
            descriptors.get(config, _CONFIG_ENGINE, _DESCRIPTOR, (ctypes.c_void_p * 1)(engine.value), 1)
            notes = (ctypes.c_int * _MAX_NOTES)()
            return list(notes[: descriptors.get(engine, _ENGINE_NOTES, _NOTE, notes, _MAX_NOTES)])

    def _workspace(self, config: ctypes.c_void_p) -> int | None:
        """Return the bytes that a plan with this engine needs, or None if there is no such plan."""
        with _Descriptors(self._library) as descriptors:
            try:
                plan = descriptors.made(
                    _PLAN,
                    (_PLAN_DEVICE, _DESCRIPTOR, [self._device.value]),
                    (_PLAN_CONFIG, _DESCRIPTOR, [config.value]),
                )
            except CudnnError:
                return None
            size_bytes = (ctypes.c_int64 * 1)()
            descriptors.get(plan, _PLAN_WORKSPACE, _INT64, size_bytes, 1)
            return size_bytes[0]


def _strides(shape: tuple[int, ...], is_last: bool) -> list[int]:
    order = [0, *range(2, len(shape)), 1] if is_last else [*range(len(shape))]
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return strides

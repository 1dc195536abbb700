"""Asks cuDNN about convolutions, as a process of its own: a line of JSON for each question, and a line for its answer.

    python _cudnn_answers.py LIBRARY… DEVICE

LIBRARY are the paths of what cuDNN needs, then of cuDNN itself. DEVICE describes a GPU as cuDNN does (JSON). If this machine has a GPU of that kind,
cuDNN answers for it, as it does in PyTorch; with another GPU, it answers for the description. Without a GPU it lacks the engines of cuBLAS, so that its
answers are others, and the process ends. The first line that is printed has the version and whether the GPU is there. A question is [direction, dtype, channels last, x, weight, y, stride, padding, dilation,
TF32 allowed]; its answer, the bytes of each plan's workspace, up to the first plan that needs none.

PyTorch asks the same (aten/src/ATen/native/cudnn/Conv_v8.cpp): the heuristic engines first, then the others. The numbers of this module
are those of cudnn_graph.h.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

# cudnnBackendAttributeType_t
_HANDLE, _DATA_TYPE, _INT64, _FLOAT, _CONVOLUTION_MODE, _HEURISTIC_MODE, _NOTE = 0, 1, 3, 4, 7, 8, 11
_DESCRIPTOR, _INT32, _CHAR = 15, 23, 24
_C_TYPES: dict[int, Any] = {
    _INT64: ctypes.c_int64,
    _FLOAT: ctypes.c_float,
    _DESCRIPTOR: ctypes.c_void_p,
    _HANDLE: ctypes.c_void_p,
}
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
_CONFIG_ENGINE, _PLAN_HANDLE, _PLAN_CONFIG, _PLAN_WORKSPACE, _PLAN_DEVICE = 300, 400, 401, 402, 407
_GRAPH_HANDLE, _GRAPH_OPERATIONS = 800, 801
_TENSOR_ALIGNMENT, _TENSOR_TYPE, _TENSOR_SHAPE, _TENSOR_STRIDES, _TENSOR_ID = 900, 901, 902, 903, 906
_ENGINE_NOTES, _DEVICE_NUMBER, _DEVICE_JSON = 1303, 2700, 2702
# cudnnDataType_t, cudnnBackendNumericalNote_t, cudnnBackendHeurMode_t
_DATA_TYPES = {"float32": 0, "float16": 2, "bfloat16": 9}
_USES_TENSOR_CORES, _CONVERTS_INPUTS = 0, 1
_INSTANT, _FALLBACK = 0, 2
_CROSS_CORRELATION = 1
# PyTorch's blocks begin at multiples of 512 bytes; it states at most this alignment.
_ALIGNMENT = 32
_MAX_NOTES, _MAX_PLANS, _MAX_JSON = 16, 48, 1 << 14


class CudnnError(Exception):
    """A call of cuDNN failed; the argument is its status."""


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
        raise CudnnError(status)


class Cudnn:
    """cuDNN for one GPU."""

    def __init__(self, library: ctypes.CDLL, device: str) -> None:
        self._library = library
        self._kept = _Descriptors(library)
        self._handle = ctypes.c_void_p()
        self._device: ctypes.c_void_p | None = None
        if not self._is_here(json.loads(device)):
            self._device = self._kept.made(_DEVICE, (_DEVICE_JSON, _CHAR, device.encode()))

    @property
    def is_here(self) -> bool:
        """Whether the GPU is on this machine."""
        return self._device is None

    def _is_here(self, wanted: dict[str, Any]) -> bool:
        """Whether a GPU of this kind is on this machine; then there is a handle for it."""
        _check(self._library.cudnnCreate(ctypes.byref(self._handle)))
        try:
            found = self._kept.made(_DEVICE, (_DEVICE_NUMBER, _INT32, [0]))
            text = ctypes.create_string_buffer(_MAX_JSON)
            count = self._kept.get(found, _DEVICE_JSON, _CHAR, text, _MAX_JSON)
            here = json.loads(text.raw[:count].rstrip(b"\0"))
            return all(here[name] == wanted[name] for name in ("deviceVer", "multiProcessorCount"))
        except (CudnnError, ValueError, KeyError):
            return False

    def workspaces(
        self, direction: str, dtype: str, is_last: bool, x: Sequence[int], weight: Sequence[int], y: Sequence[int],
        stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], allow_tf32: bool,
    ) -> list[int]:  # fmt: skip
        """Return the bytes of the workspace of each plan, in order, up to the first that needs none; [] if cuDNN has no answer."""
        try:
            with _Descriptors(self._library) as descriptors:
                graph = self._graph(descriptors, direction, dtype, is_last, x, weight, y, stride, padding, dilation)
                return list(self._workspaces(descriptors, graph, not allow_tf32 and dtype == "float32"))
        except CudnnError:
            return []

    def _graph(
        self, descriptors: _Descriptors, direction: str, dtype: str, is_last: bool, x: Sequence[int], weight: Sequence[int],
        y: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
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
        return descriptors.made(
            _GRAPH, *self._of_device(None, _GRAPH_HANDLE), (_GRAPH_OPERATIONS, _DESCRIPTOR, [operation.value])
        )

    def _of_device(self, device: int | None, handle: int | None = None) -> list[tuple[int, int, Sequence[Any]]]:
        """Return the attribute that says for which GPU: a description or a handle, by the names that a descriptor has for them."""
        if self._device is None:
            return [] if handle is None else [(handle, _HANDLE, [self._handle.value])]
        return [] if device is None else [(device, _DESCRIPTOR, [self._device.value])]

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
                *self._of_device(_HEURISTIC_DEVICE),
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
                    *self._of_device(_PLAN_DEVICE, _PLAN_HANDLE),
                    (_PLAN_CONFIG, _DESCRIPTOR, [config.value]),
                )
            except CudnnError:
                return None
            size_bytes = (ctypes.c_int64 * 1)()
            descriptors.get(plan, _PLAN_WORKSPACE, _INT64, size_bytes, 1)
            return size_bytes[0]


def _strides(shape: Sequence[int], is_last: bool) -> list[int]:
    order = [0, *range(2, len(shape)), 1] if is_last else [*range(len(shape))]
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim]
    return strides


def _answer_stream() -> TextIO:
    """Return the standard output. What libraries print on it, such as cuDNN's log, goes to standard error from now on."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def main() -> None:
    answers = _answer_stream()
    *paths, device = sys.argv[1:]
    for path in paths:
        library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    library.cudnnGetVersion.restype = ctypes.c_size_t
    try:
        cudnn = Cudnn(library, device)
    except CudnnError:  # no GPU
        return
    print(json.dumps({"version": library.cudnnGetVersion(), "is_here": cudnn.is_here}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(cudnn.workspaces(*json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()

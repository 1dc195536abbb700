"""Convolutions: which of them PyTorch runs by cuDNN, the workspaces of those, and the copies that PyTorch makes for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from vram.dry._plans import Plans
from vram.dry._workspaces import DATA, FORWARD, Estimates, measures

# The element types of convolutions that cuDNN's plans are known for.
DTYPES = ("float32", "float16", "bfloat16")
# PyTorch's own kernel runs convolutions of fewer channels with a group for each.
_LEAST_DEPTHWISE = 32


def is_last(tensor: Any) -> bool:
    """Whether PyTorch takes a tensor for one whose channels are the fastest dimension: also by strides of dimensions of size 1.

    The conditions are those of c10/core/MemoryFormat.h, by which Tensor::suggest_memory_format() decides.
    """
    shape, strides = tensor.shape, tensor.stride()
    if len(shape) not in (4, 5) or strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[dim] == 0 or strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = int(strides[dim]) * max(1, int(shape[dim]))
    return True


def is_contiguous(tensor: Any, *, last: bool = False) -> bool:
    """Whether the elements are in order, or in that of channels last."""
    order = [*range(len(tensor.shape))]
    if last:
        order = [0, *order[2:], 1]
    strides, expected = tensor.stride(), 1
    for dim in reversed(order):
        if tensor.shape[dim] != 1 and strides[dim] != expected:
            return False
        expected *= tensor.shape[dim]
    return True


def copy_bytes(tensor: Any, input: Any, weight: Any) -> int:  # noqa: A002
    """Return the bytes of the copy that PyTorch makes of an argument whose layout is not that of the convolution; 0 if it is."""
    last = is_last(input) or is_last(weight)
    return 0 if is_contiguous(tensor, last=last) else math.prod(tensor.shape) * int(tensor.dtype.itemsize)


def _sized(values: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a value for each dimension of images; one value stands for all."""
    found = tuple(map(int, values))
    return found * (len(shape) - 2) if len(found) == 1 else found


def is_native(input: Any, weight: Any, stride: Any, dilation: Any, transposed: bool, groups: int) -> bool:  # noqa: A002
    """Whether PyTorch runs a convolution by its own kernel, which needs no workspace: most of those with a group for each channel.

    The conditions are those of aten/src/ATen/native/Convolution.cpp.
    """
    channels = int(input.shape[1])
    rank = len(input.shape)
    if transposed or groups == 1 or groups != channels or int(weight.shape[0]) % channels or rank not in (3, 4, 5):
        return False
    if is_last(input) or is_last(weight):
        return False
    if not str(input.dtype).endswith(".float16") or rank == 5:
        return True
    shape, kernel = ([*map(int, tensor.shape[2:])] for tensor in (input, weight))
    steps = [*stride]
    if rank == 3:
        shape, kernel, steps = [1, *shape], [1, *kernel], [1, *steps]
    is_dilated = any(int(each) != 1 for each in dilation)
    if is_dilated or channels < _LEAST_DEPTHWISE or not (steps[0] == steps[1] or shape[0] == 1):
        return True
    return not _is_faster_with_cudnn(int(input.shape[0]), channels, shape, kernel, steps[1])


def _is_faster_with_cudnn(batch: int, channels: int, shape: Sequence[int], kernel: Sequence[int], stride: int) -> bool:
    """Return whether PyTorch prefers cuDNN for this depthwise convolution in float16 (aten/src/ATen/native/Convolution.cpp)."""
    (height, width), size = shape, kernel[1]
    if height == 1 and stride == 1:
        return True
    if kernel[0] != size or size not in (1, 3, 5) or width < 7 or stride not in (1, 2):
        return False
    if stride == 1:
        return True
    if batch == 1:
        return size in (3, 5) or width <= 28
    if size == 1:
        return batch <= 16 and channels >= 128 and width <= 7
    return channels >= 512 or (channels >= 256 and width >= 28)


class Workspaces:
    """What cuDNN answers about a call, or else the estimate of a file of `kernels/`."""

    def __init__(self, name: str, plans: Plans | None = None) -> None:
        self._name, self._plans = name, plans
        self.allow_tf32 = True  # torch.backends.cudnn.allow_tf32

    @property
    def are_answered(self) -> bool:
        """Whether cuDNN answers, and is the one of this PyTorch."""
        return self._plans is not None and self._plans.is_open

    @property
    def are_exact(self) -> bool:
        """Whether cuDNN answers for a GPU of this machine."""
        return self._plans is not None and self._plans.is_exact

    def bytes_of(self, *call: Any) -> int:
        """Return the bytes of the workspace of one direction of a convolution.

        Args:
            call: The direction, "forward", or the gradient of "data" (the input) or "weight"; then input, weight, output, stride, padding, dilation,
                transposed and groups, as PyTorch's operators have them. In a backward pass the output is its gradient.
        """
        plain = plain_call(*call)
        if plain is None:
            return 0
        answered = self._answered(plain)
        return answered[0] if answered else Estimates.load(self._name).workspace(plain[0], measures(*plain))

    def fallbacks_of(self, *call: Any) -> tuple[int, ...]:
        """Return the workspaces that PyTorch requests in turn where it cannot have that of bytes_of(), which has the same arguments.

        These are the workspaces of later plans that need less than all before them; only 0 where cuDNN has no answer.
        """
        plain = plain_call(*call)
        sizes = self._answered(plain) if plain else ()
        if not sizes:
            return (0,)
        least = (*itertools.accumulate(sizes, min),)
        return tuple(size for size, before in zip(least[1:], least) if size < before)

    def _answered(self, plain: PlainCall) -> tuple[int, ...]:
        """Return the workspaces of cuDNN's plans; () if it is not asked, or does not answer."""
        return self._plans.workspaces(*plain, self.allow_tf32) if self._plans is not None else ()


# Direction, element type, whether channels are last, shapes of input, weight and output, stride, padding, dilation.
_Shape = tuple[int, ...]
PlainCall = tuple[str, str, bool, _Shape, _Shape, _Shape, _Shape, _Shape, _Shape]


def plain_call(
    direction: str, input: Any, weight: Any, output: Any, stride: Any, padding: Any, dilation: Any,  # noqa: A002
    transposed: bool, groups: int,
) -> PlainCall | None:  # fmt: skip
    """Return a call as that of a plain convolution, of which a transposed one is the inverse; None if cuDNN does not run it with a workspace."""
    dtype = str(input.dtype).rpartition(".")[2]
    x, weight_shape, y = (tuple(map(int, tensor.shape)) for tensor in (input, weight, output))
    if dtype not in DTYPES or 0 in (*x, *weight_shape, *y):
        return None
    if is_native(input, weight, stride, dilation, transposed, groups):
        return None
    last = is_last(input) or is_last(weight)
    if transposed:
        x, y = y, x
        direction = {FORWARD: DATA, DATA: FORWARD}.get(direction, direction)
    steps, pads, dilations = (_sized(values, x) for values in (stride, padding, dilation))
    return direction, dtype, last, x, weight_shape, y, steps, pads, dilations

"""The workspaces of cuDNN's convolutions: which size cuDNN's heuristics choose for a shape, learned from measured calls.

A workspace is a sum of few parts that are exact functions of the shape: copies of the operands in the layout of the tensor cores, and
partial sums of the weight's gradient. Which parts a call needs is cuDNN's choice, which is not published. Decision trees approximate it: each
leads a call to one of the known sums, and the median of the trees' sizes counts. bench/prediction/convolutions.py learns the trees.

A file of `kernels/` has for each direction a list of trees. A tree is the number of a size, or [measure, limit, tree, tree]: the first tree
if the measure is at most the limit, else the second.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vram.dry._arithmetic import ceil_div, round_up
from vram.dry._plans import Plans

FORWARD, DATA, WEIGHT = DIRECTIONS = ("forward", "data", "weight")
_FOLDER = Path(__file__).parent / "kernels"
# The element types of convolutions that cuDNN's plans are known for.
DTYPES = ("float32", "float16", "bfloat16")
# PyTorch's own kernel runs convolutions of fewer channels with a group for each.
_LEAST_DEPTHWISE = 32
# cuDNN pads the channels of its copies to this many bytes.
_ALIGNMENT = 16
# What a plan with copies needs in addition, for most plans.
_HEADER_BYTES = 16


def _tiles(rows: int, columns: int, side: int) -> int:
    return ceil_div(rows, side) * ceil_div(columns, side)


@functools.lru_cache(maxsize=4096)
def measures(
    direction: str, element_bytes: int, is_bfloat16: bool, is_last: bool, input: tuple[int, ...],  # noqa: A002
    weight: tuple[int, ...], output: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
    dilation: tuple[int, ...], transposed: bool, groups: int,
) -> Mapping[str, int]:  # fmt: skip
    """Return the numbers by which trees decide, and the parts of sizes.

    The parts in bytes are `x`, `w` and `y`, the copies of the operands with padded channels; `x0`, `w0` and `y0`, the same without padding;
    `p`, the weight's gradient in float32; and `pad`, the copies of those operands whose channels need padding. `xg`, `yg` and `bp` are for
    groups: the copies with padded channels of each group, and an unpadded gradient of the weight for each image of the batch.
    """
    batch, ins, outs = input[0], input[1], output[1]
    xs, ys, kernel = input[2:], output[2:], weight[2:]
    x_points, y_points, k_points = math.prod(xs), math.prod(ys), math.prod(kernel)
    group_ins, group_outs = ins // groups, outs // groups
    unit = max(1, _ALIGNMENT // element_bytes)

    def padded(channels: int) -> int:
        return round_up(channels, unit)

    x = batch * padded(ins) * x_points * element_bytes
    y = batch * padded(outs) * y_points * element_bytes
    w_numel = padded(group_ins) * padded(group_outs) * groups * k_points
    w = w_numel * element_bytes
    rows, columns, depth = {
        FORWARD: (batch * y_points, group_outs, group_ins * k_points),
        DATA: (batch * x_points, group_ins, group_outs * k_points),
        WEIGHT: (group_outs, group_ins * k_points, batch * y_points),
    }[direction]
    x0, y0, w0 = (batch * ins * x_points * element_bytes, batch * outs * y_points * element_bytes,
                  outs * group_ins * k_points * element_bytes)  # fmt: skip
    tiles = _tiles(rows, columns, 128) * groups
    return {
        "x": x, "w": w, "y": y, "x0": x0, "w0": w0, "y0": y0, "p": 4 * w_numel,
        "xg": batch * padded(group_ins) * groups * x_points * element_bytes, "yg": batch * padded(group_outs) * groups * y_points * element_bytes,
        "bp": 4 * batch * outs * group_ins * k_points,
        "pad": x * (ins % unit > 0) + y * (outs % unit > 0) + w * (ins % unit > 0 or outs % unit > 0),
        "is_half": int(element_bytes == 2), "is_bfloat16": int(is_bfloat16), "is_last": int(is_last),
        "transposed": int(transposed), "rank": max(2, len(kernel)), "batch": batch, "ins": ins, "outs": outs, "groups": groups,
        "group_ins": group_ins, "group_outs": group_outs, "kernel": k_points, "kernel_max": max(kernel),
        "kernel_min": min(kernel) if len(kernel) > 1 else 1, "kernel_width": kernel[-1], "kernel_height": kernel[-2] if len(kernel) > 1 else 1,
        "stride": max(stride), "dilation": max(dilation), "padding": max(padding), "patches": int(tuple(stride) == tuple(kernel)),
        "x_points": x_points, "y_points": y_points, "batch_x": batch * x_points, "batch_y": batch * y_points, "x_width": xs[-1],
        "y_width": ys[-1], "x_width_gcd": math.gcd(xs[-1], 16), "y_width_gcd": math.gcd(ys[-1], 16), "ins_gcd": math.gcd(group_ins, 16),
        "outs_gcd": math.gcd(group_outs, 16), "ins_kernel": group_ins * k_points, "outs_kernel": group_outs * k_points,
        "least": min(ins, outs), "most": max(ins, outs), "rows": rows, "columns": columns, "depth": depth, "tiles": tiles,
        "small_tiles": _tiles(rows, columns, 64) * groups, "depth_of_tile": depth // tiles,
        "work": batch * y_points * outs * group_ins * k_points >> 10, "x_to_y": 1000 * x0 // y0, "w_to_xy": 1000 * w0 // (x0 + y0),
    }  # fmt: skip


def size_of(text: str, measured: Mapping[str, int]) -> int:
    """Return the bytes of a sum such as "x + w + 7 p", in which a bare number is bytes."""
    total = 0
    for term in text.split(" + "):
        count, _, name = term.rpartition(" ")
        total += int(name) if name.isdecimal() else (int(count) if count else 1) * measured[name]
    return total


def is_last(tensor: Any) -> bool:
    """Whether the channels are the fastest dimension, and the tensor is not contiguous as well."""
    return len(tensor.shape) in (4, 5) and tensor.stride()[1] == 1 and not is_contiguous(tensor)


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


def measures_of(
    direction: str, input: Any, weight: Any, output: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,  # noqa: A002
    groups: int,
) -> tuple[str, Mapping[str, int]]:  # fmt: skip
    """Return direction and measures of a call; a transposed convolution counts as the plain one that it inverts.

    There are no measures of empty tensors and of float64, which needs no copies.
    """
    dtype, last = input.dtype, is_last(input) or is_last(weight)
    if transposed:
        input, output = output, input  # noqa: A001
        direction = {FORWARD: DATA, DATA: FORWARD}.get(direction, direction)
    shapes = [tuple(map(int, tensor.shape)) for tensor in (input, weight, output)]
    if dtype.itemsize > 4 or 0 in (*shapes[0], *shapes[1], *shapes[2]):
        return direction, {}
    return direction, measures(
        direction, int(dtype.itemsize), str(dtype).endswith("bfloat16"), last, *shapes, tuple(stride), tuple(padding), tuple(dilation),
        bool(transposed), int(groups),
    )  # fmt: skip


def _sized(values: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """Return a value for each dimension of images; one value stands for all."""
    found = tuple(map(int, values))
    return found * (len(shape) - 2) if len(found) == 1 else found


def _leaf(tree: Any, values: Sequence[int]) -> int:
    while not isinstance(tree, int):
        tree = tree[2] if values[tree[0]] <= tree[1] else tree[3]
    return tree


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
    """What cuDNN answers about a call, or else the trees of one file."""

    def __init__(self, data: Mapping[str, Any], plans: Plans | None = None) -> None:
        self._plans = plans
        self.allow_tf32 = True  # torch.backends.cudnn.allow_tf32
        self._names: list[str] = data["measures"]
        self._sizes: list[str] = data["sizes"]
        self._trees: Mapping[str, list[Any]] = data["trees"]

    @classmethod
    def load(cls, name: str, plans: Plans | None = None) -> Workspaces:
        """Read a file of `kernels/`."""
        return cls(json.loads((_FOLDER / name).read_text()), plans)

    @property
    def are_answered(self) -> bool:
        """Whether cuDNN answers, and is the one of this PyTorch."""
        return self._plans is not None and self._plans.is_open

    @property
    def are_exact(self) -> bool:
        """Whether cuDNN answers for a GPU of this machine."""
        return self._plans is not None and self._plans.is_exact

    def predicted(self, direction: str, measured: Mapping[str, int]) -> int:
        """Return the median of the sizes that the trees lead to."""
        values = [measured[name] for name in self._names]
        sizes = [size_of(self._sizes[_leaf(tree, values)], measured) for tree in self._trees[direction]]
        found = statistics.median_low(sizes)
        return found + _HEADER_BYTES if found else 0

    def bytes_of(
        self, direction: str, input: Any, weight: Any, output: Any, stride: Any, padding: Any, dilation: Any,  # noqa: A002
        transposed: bool, groups: int,
    ) -> int:  # fmt: skip
        """Return the bytes of the workspace of one direction of a convolution.

        `direction` is "forward", or the gradient of "data" (the input) or "weight"; in a backward pass `output` is its gradient. The others
        are as PyTorch's operators have them.
        """
        sizes = self._sizes_of(direction, input, weight, output, stride, padding, dilation, transposed, groups)
        if sizes:
            return sizes[0]
        direction, measured = measures_of(
            direction, input, weight, output, stride, padding, dilation, transposed, groups
        )
        return self.predicted(direction, measured) if measured else 0

    def fallbacks_of(self, *call: Any) -> tuple[int, ...]:
        """Return the workspaces that PyTorch requests in turn where it cannot have that of bytes_of(), which has the same arguments.

        These are the workspaces of later plans that need less than all before them; only 0 where cuDNN has no answer.
        """
        sizes = self._sizes_of(*call)
        if not sizes:
            return (0,)
        least = (*itertools.accumulate(sizes, min),)
        return tuple(size for size, before in zip(least[1:], least) if size < before)

    def _sizes_of(
        self, direction: str, input: Any, weight: Any, output: Any, stride: Any, padding: Any, dilation: Any,  # noqa: A002
        transposed: bool, groups: int,
    ) -> tuple[int, ...]:  # fmt: skip
        """Return the workspaces of cuDNN's plans; () if only the trees know."""
        dtype = str(input.dtype).rpartition(".")[2]
        x, weight_shape, y = (tuple(map(int, tensor.shape)) for tensor in (input, weight, output))
        if self._plans is None or dtype not in DTYPES or 0 in (*x, *weight_shape, *y):
            return ()
        if is_native(input, weight, stride, dilation, transposed, groups):
            return (0,)
        if transposed:
            x, y = y, x
            direction = {FORWARD: DATA, DATA: FORWARD}.get(direction, direction)
        last = is_last(input) or is_last(weight)
        return self._plans.workspaces(
            direction,
            dtype,
            last,
            x,
            weight_shape,
            y,
            _sized(stride, x),
            _sized(padding, x),
            _sized(dilation, x),
            self.allow_tf32,
        )

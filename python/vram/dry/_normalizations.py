"""Batch normalization of channels-last tensors: partial statistics, and cuDNN's workspace."""

from __future__ import annotations

import math
from typing import Any

from vram.dry._arithmetic import ceil_div
from vram.dry._convolutions import is_contiguous, is_last

# How PyTorch's kernels divide rows among blocks (aten/src/ATen/native/cuda/Normalization.cuh).
_THREADS, _WIDEST, _ROWS_OF_THREAD, _MOST_PARTS, _FEWEST_PARTS = 512, 32, 16, 128, 8
# cuDNN's persistent kernels take so many channels at once. Of 24 workspaces of each direction on an H200, some led to these, and all agree; so do
# three of a network that led to none.
_CHANNELS, _COUNTER_BYTES = 64, 4
_ROWS_OF_TILE = {8: 32, 4: 64, 2: 160}  # in forward, by the bytes of an element; that of 8 bytes was not measured
_FORWARD_BYTES, _BACKWARD_BYTES = 1072, 1056  # besides what grows


def by_rows(tensor: Any) -> bool:
    """Whether PyTorch's kernels for channels-last tensors run: also for a matrix, whose columns are the channels."""
    return is_last(tensor) or (is_contiguous(tensor) and len(tensor.shape) > 1 and int(tensor.stride()[1]) == 1)


def parts(tensor: Any) -> int:
    """Return how many partial statistics of each channel are kept; 0: none."""
    return _launch(tensor)[1]


def counters_bytes(tensor: Any) -> int:
    """Return the bytes of the counters that say which block is the last one; 0: no statistics are partial."""
    columns, found = _launch(tensor)
    return _COUNTER_BYTES * columns if found else 0


def _launch(tensor: Any) -> tuple[int, int]:
    """The blocks along channels and rows."""
    channels, rows = _sizes(tensor)
    width = min(_power_below(channels), _WIDEST)
    height = min(_power_below(ceil_div(rows, _ROWS_OF_THREAD)), _THREADS // width)
    if width * height != _THREADS:
        width = min(_power_below(channels), _THREADS // height)
    found = min(ceil_div(rows, height * _ROWS_OF_THREAD), _MOST_PARTS)
    return ceil_div(channels, width), found if found >= _FEWEST_PARTS else 0


def cudnn_forward_bytes(tensor: Any) -> int:
    """Return the workspace of cuDNN's forward pass of training."""
    channels, rows = _sizes(tensor)
    blocks = ceil_div(channels, _CHANNELS)
    tiles = ceil_div(rows, _ROWS_OF_TILE[int(tensor.dtype.itemsize)])
    return blocks * (tiles * (8 * _CHANNELS + _COUNTER_BYTES) + _COUNTER_BYTES) + _FORWARD_BYTES


def cudnn_backward_bytes(tensor: Any) -> int:
    """Return the workspace of cuDNN's backward pass."""
    channels, rows = _sizes(tensor)
    blocks = ceil_div(channels, _CHANNELS)
    return blocks * (ceil_div(rows, 96) * 8 * _CHANNELS + _COUNTER_BYTES) + _BACKWARD_BYTES


def _sizes(tensor: Any) -> tuple[int, int]:
    sizes = [int(size) for size in tensor.shape]
    return sizes[1], math.prod(sizes) // max(1, sizes[1])


def _power_below(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(1, number).bit_length() - 1)

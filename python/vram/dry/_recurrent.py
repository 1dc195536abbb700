"""The bytes of cuDNN's recurrent layers: what is kept for backward, and the workspace.

The sums were found with the even groups of the probes `sampled_recurrent` of bench/prediction on one H200 (PyTorch 2.11); docs/dry-run.md
has their errors for the odd groups, which led to no sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vram.dry._arithmetic import round_up

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
# Values that a layer keeps for its backward, in multiples of its hidden size: the activations of its gates and what they need.
_KEPT = {RELU: 1, TANH: 1, LSTM: 5, GRU: 6}
_MASK_BYTES = 128  # which masks of dropout are padded to
_HEADER, _OF_LAYERS = 256, 8 << 20
# The widest layers for which PyTorch takes a persistent kernel for small ones, forward and backward (aten/src/ATen/native/cudnn/RNN.cpp).
_SMALL = {RELU: (384, 256), TANH: (384, 256), LSTM: (192, 128), GRU: (192, 128)}
# What small kernels need in addition, in multiples of the hidden size, for each step of a sequence.
_OF_SMALL = {RELU: 9, TANH: 9, LSTM: 12, GRU: 14}
# For each sequence and layer, in multiples of the hidden size: one direction and both, of usual kernels and of small ones.
_OF_SEQUENCES = {RELU: (5, 14), TANH: (5, 14), LSTM: (11, 26), GRU: (5, 14)}
_OF_SMALL_SEQUENCES = {RELU: (6, 14), TANH: (6, 14), LSTM: (12, 26), GRU: (6, 14)}
# The same of packed sequences, for each step and for each sequence.
_OF_PACKED_STEPS = {RELU: (2, 6), TANH: (2, 6), LSTM: (4, 12), GRU: (3, 10)}
_OF_PACKED = {RELU: (1, 6), TANH: (1, 6), LSTM: (6, 16), GRU: (3, 10)}
# Layers that follow each other work on parts of so many steps, all layers together.
_PIPELINED_STEPS = 96
_SHORT = 128  # steps up to which one layer of an LSTM computes the products of all steps first


def reserve_bytes(
    mode: int, values: int, steps: int, hidden: int, projected: int, layers: int, directions: int, element_bytes: int, dropout: float
) -> int:  # fmt: skip
    """Return what cuDNN keeps from the forward to the backward.

    `values` are the steps of all sequences of the batch, `steps` the same if all were as long as the longest, and `projected` is the width of
    results, if not `hidden`; else 0.
    """
    between = directions * (layers - 1) * values * hidden
    kept = directions * layers * (_KEPT[mode] * hidden + 3 * projected) * values
    # A bit for each value that a layer hands to the next.
    masks = round_up(directions * directions * (layers - 1) * steps * (projected or hidden) // 8, _MASK_BYTES)
    return _HEADER + element_bytes * (kept + between) + (masks if dropout else 0)


@dataclass(frozen=True)
class _Shape:
    """A call of cuDNN: the widths, and the number of steps of the longest sequence and of all (`values`)."""

    mode: int
    width: int
    hidden: int
    layers: int
    directions: int
    sequences: int
    steps: int
    values: int
    has_dropout: bool

    @property
    def is_deep(self) -> bool:
        return self.layers > 1

    def sum_of(self, of_value: int, of_sequence: int) -> int:
        return self.values * of_value + self.sequences * self.hidden * self.layers * of_sequence


def _both_ways(shape: _Shape, is_small: bool) -> int:
    """The elements of two directions: the larger of what two ways to compute need, which cuDNN both allows for."""
    width, hidden = shape.width, shape.hidden
    extra = _OF_SMALL[shape.mode] * hidden if is_small else 0
    of_sequences = (_OF_SMALL_SEQUENCES if is_small else _OF_SEQUENCES)[shape.mode][1]
    after = 2 * hidden * shape.is_deep
    usual = shape.sum_of(2 * (2 * width + 3 * hidden + max(width, hidden)) + after + extra, of_sequences)
    if shape.mode == LSTM:
        other = shape.sum_of(width + (30 if is_small else 14) * hidden, 18 if is_small else 24)
    elif shape.mode == GRU and not is_small and not shape.is_deep:
        other = shape.sum_of(width + 12 * hidden, of_sequences)
    else:
        other = shape.sum_of(2 * width + 10 * hidden + after + extra, of_sequences)
    return max(usual, other)


def _one_way(shape: _Shape, is_small: bool) -> int:
    """The same of one direction."""
    mode, width, hidden = shape.mode, shape.width, shape.hidden
    products = 2 * width + 3 * hidden + max(width, hidden)
    if is_small:
        of_sequences = _OF_SMALL_SEQUENCES[mode][0]
        usual = shape.sum_of(products + (_OF_SMALL[mode] + shape.is_deep) * hidden, of_sequences)
        other = shape.sum_of(width + (21 + shape.has_dropout) * hidden, 8)
        return max(usual, other) if mode == LSTM else usual
    usual = shape.sum_of(products, _OF_SEQUENCES[mode][0])
    if shape.is_deep:
        part = min(shape.steps, max(12, 3 * shape.steps // 8), _PIPELINED_STEPS // shape.layers)
        usual -= (shape.values - part * shape.sequences) * hidden
    if mode == LSTM and (shape.is_deep or shape.steps <= _SHORT):
        return max(usual, shape.sum_of(width + (5 + shape.has_dropout) * hidden, 10))
    if mode == GRU and shape.is_deep:
        return max(usual, shape.sum_of(width + (4 + shape.has_dropout) * hidden, 5))
    return usual


def _packed(shape: _Shape) -> int:
    """The same of packed sequences."""
    both, width, hidden = shape.directions - 1, shape.width, shape.hidden
    of_steps = (_OF_PACKED_STEPS[shape.mode][both] + (shape.has_dropout and not both)) * hidden
    wide = 4 * width + (4 if shape.is_deep else 2) * hidden if both else width + hidden
    return shape.sum_of(max(of_steps, wide), _OF_PACKED[shape.mode][both])


def workspace_bytes(
    x: Any, weights: Any, weights_of_layer: int, hx: Any, mode: int, hidden: int, projected: int, layers: int, dropout: float,
    bidirectional: bool, batch_sizes: Any, backward: bool,
) -> int:  # fmt: skip
    """Return the workspace of the forward, or of each half of the backward; the arguments are those of aten::_cudnn_rnn."""
    width, element_bytes, sequences = int(x.shape[-1]), int(x.dtype.itemsize), int(hx.shape[1])
    values = math.prod(map(int, x.shape[:-1]))
    directions = 2 if bidirectional else 1
    steps = len(batch_sizes) if batch_sizes else values // sequences
    shape = _Shape(mode, width, hidden, layers, directions, sequences, steps, values, dropout > 0 and layers > 1)
    matrices = sum(
        math.prod(map(int, weight.shape))
        for number, weight in enumerate(weights)
        if number % weights_of_layer < 2 or (projected and number % weights_of_layer == weights_of_layer - 1)
    )
    # PyTorch has these layers computed by a persistent kernel.
    is_half, is_bfloat16 = str(x.dtype).endswith(".float16"), str(x.dtype).endswith("bfloat16")
    is_small = hidden <= _SMALL[mode][backward] and not is_bfloat16 and not projected
    is_small |= (
        mode == LSTM and is_half and layers == directions == 1 and hidden <= 1024 and hidden % 128 == width % 128 == 0 and not projected
    )  # fmt: skip
    if batch_sizes:
        elements = _packed(shape)
    else:
        elements = _both_ways(shape, is_small) if bidirectional else _one_way(shape, is_small)
    lists = _HEADER + round_up(8 * sequences, 32)  # of where each sequence begins and ends
    return element_bytes * (matrices + elements) + _OF_LAYERS * directions * layers + lists

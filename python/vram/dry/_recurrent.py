"""The bytes of cuDNN's recurrent layers: what is kept for backward, and the workspace.

The sums were found with the probes `recurrent` of bench/prediction and one recording, all on one H200 (PyTorch 2.11). They are exact for these:
one to four layers, one or two directions, float32, float16 and bfloat16.
"""

from __future__ import annotations

import math
from typing import Any

from vram.dry._arithmetic import round_up

RELU, TANH, LSTM, GRU = range(4)
_GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
# Values that a layer keeps for its backward, in multiples of its hidden size: the activations of its gates and what they need.
_KEPT = {RELU: 1, TANH: 1, LSTM: 5, GRU: 6}
_RESERVE_HEADER = 256
# Parts of the workspace, in multiples of the hidden size: for each step of each sequence, and for each sequence.
_OF_STEPS = {RELU: 4, TANH: 4, LSTM: 5, GRU: 6}
_OF_SEQUENCES = {RELU: 17, TANH: 17, LSTM: 10, GRU: 7}
_OF_LAYERS = 8 << 20


def reserve_bytes(
    mode: int, values: int, hidden: int, layers: int, directions: int, element_bytes: int, dropout: float
) -> int:
    """Return what cuDNN keeps from the forward to the backward; `values` are the steps of all sequences of the batch."""
    between = directions * (layers - 1) * values * hidden
    masks = between // 8 if dropout else 0  # a bit for each value that a layer hands to the next
    return _RESERVE_HEADER + element_bytes * (directions * layers * _KEPT[mode] * values * hidden + between) + masks


def workspace_bytes(
    x: Any, weights: Any, weights_of_layer: int, hx: Any, mode: int, hidden: int, layers: int, dropout: float, bidirectional: bool,
    batch_sizes: Any,
) -> int:  # fmt: skip
    """Return the workspace of the forward, and of each half of the backward; the arguments are those of aten::_cudnn_rnn."""
    width, element_bytes, sequences = int(x.shape[-1]), int(x.dtype.itemsize), int(hx.shape[1])
    values = math.prod(map(int, x.shape[:-1]))
    directions = 2 if bidirectional else 1
    biases = 2 * _GATES[mode] * hidden * directions * layers if weights_of_layer > 3 else 0
    matrices = sum(math.prod(map(int, weight.shape)) for weight in weights) - biases
    has_dropout = dropout > 0 and layers > 1
    of_steps = values * directions * ((_OF_STEPS[mode] + has_dropout) * hidden + width)
    of_sequences = sequences * hidden * (_OF_SEQUENCES[mode] * directions * layers + (mode == LSTM and layers == 1))
    total = element_bytes * (matrices + of_steps + of_sequences) + _OF_LAYERS * directions * layers
    total += round_up(6 * (values // sequences), 128)
    # PyTorch has these layers computed by a persistent kernel.
    is_persistent = (
        not batch_sizes and layers == directions == 1 and hidden <= 1024 and hidden % 128 == width % 128 == 0
    )
    if is_persistent and mode == LSTM and str(x.dtype).endswith(".float16"):
        total += element_bytes * hidden * (16 * values - 3 * sequences)
    return total

"""Operators of cuDNN, and of modules that PyTorch runs as one kernel, whose results PyTorch's fake kernels do not describe as they are on a GPU.

What is known of the sizes comes from recordings of one H200 (PyTorch 2.11); docs/dry-run.md says which.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from vram.dry._patches import Patches
from vram.dry._recurrent import GRU, LSTM, RELU, TANH, reserve_bytes

_ATEN = torch.ops.aten
_WITH_BIASES = 4  # weights of a layer, of which two are biases
# The types of weights that PyTorch puts into one piece.
_FLATTENED = (torch.float16, torch.float32, torch.float64)


def is_acceptable(tensor: Any, dtypes: tuple[torch.dtype, ...] = (*_FLATTENED, torch.bfloat16)) -> bool:
    """Whether cuDNN's recurrent layers take it."""
    return (
        tensor.device.type == "cuda" and torch.backends.cudnn.enabled and tensor.dtype in dtypes and tensor.numel() > 0
    )


# ------------------------------------------------------------------------------------------------ recurrent layers


def _is_flat(weights: Any) -> bool:
    """Whether the weights lie one behind the other in one storage, as cuDNN wants them."""
    end = weights[0].storage_offset()
    for weight in weights:
        if weight.untyped_storage()._cdata != weights[0].untyped_storage()._cdata or weight.storage_offset() != end:
            return False
        end += weight.numel()
    return True


def flatten(layer: Any) -> None:
    """torch.nn.RNNBase.flatten_parameters(): move the weights into one storage."""
    weights = layer._flat_weights
    if not weights or any(not isinstance(weight, torch.Tensor) for weight in weights):
        return
    if any(not is_acceptable(weight, _FLATTENED) or weight.dtype != weights[0].dtype for weight in weights):
        return
    if _is_flat(weights):
        return
    with torch.no_grad():
        buffer = torch.zeros(
            sum(weight.numel() for weight in weights), dtype=weights[0].dtype, device=weights[0].device
        )
        offset = 0
        for weight in weights:
            weight.data = buffer[offset : offset + weight.numel()].view(weight.shape)
            offset += weight.numel()


class _Copied(torch.autograd.Function):
    """A weight as a part of a buffer of another type."""

    @staticmethod
    def forward(ctx: Any, weight: Any, buffer: Any, offset: int) -> Any:
        ctx.dtype = weight.dtype
        return buffer[offset : offset + weight.numel()].view(weight.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0].to(ctx.dtype), None, None


def _in_one_piece(weights: Any) -> tuple[list[Any], Any]:
    """Return copies of weights in float16 that lie one behind the other, and the memory of all."""
    buffer = weights[0].new_empty(sum(weight.numel() for weight in weights), dtype=torch.float16)
    parts, offset = [], 0
    for weight in weights:
        parts.append(_Copied.apply(weight, buffer, offset))
        offset += weight.numel()
    return parts, buffer


def _run(
    x: Any, batch_sizes: Any, hx: Any, cx: Any, weights: Any, has_biases: bool, mode: int, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    hidden = hx.size(2) if cx is None else cx.size(2)
    projected = 0 if hx.size(2) == hidden else hx.size(2)
    is_flat = _is_flat(weights)
    buffer = weights[0].detach() if is_flat else None
    # Autocast copies the weights into one piece, and then the rest; always in float16 (aten/src/ATen/cudnn/AutocastRNN.cpp).
    if torch.is_autocast_enabled("cuda"):
        weights, buffer = _in_one_piece(weights)
        cx, hx, x = (None if each is None else each.half() for each in (cx, hx, x))
    sizes = [] if batch_sizes is None else batch_sizes.tolist()
    return _ATEN._cudnn_rnn(
        x, list(weights), (4 if has_biases else 2) + bool(projected), buffer, hx, cx, mode, hidden, projected, layers, batch_first,
        dropout, train, bidirectional, sizes, None,
    )  # fmt: skip


def recurrent() -> dict[Any, Callable[..., Any]]:
    """Return what aten::lstm, aten::gru and aten::rnn do on a GPU: one call of cuDNN for all layers."""

    def padded(overload: Any, mode: int) -> Callable[..., Any]:
        def run(x: Any, hidden: Any, weights: Any, has_biases: bool, layers: int, *rest: Any) -> Any:
            if not is_acceptable(x):
                return overload.decompose(x, hidden, weights, has_biases, layers, *rest)
            hx, cx = hidden if mode == LSTM else (hidden, None)
            output, hy, cy, *_ = _run(x, None, hx, cx, weights, has_biases, mode, layers, *rest)
            return (output, hy, cy) if mode == LSTM else (output, hy)

        return run

    def packed(overload: Any, mode: int) -> Callable[..., Any]:
        def run(
            data: Any, batch_sizes: Any, hidden: Any, weights: Any, has_biases: bool, layers: int, *rest: Any
        ) -> Any:
            if not is_acceptable(data):
                return overload.decompose(data, batch_sizes, hidden, weights, has_biases, layers, *rest)
            hx, cx = hidden if mode == LSTM else (hidden, None)
            output, hy, cy, *_ = _run(data, batch_sizes, hx, cx, weights, has_biases, mode, layers, *(*rest, False))
            return (output, hy, cy) if mode == LSTM else (output, hy)

        return run

    found: dict[Any, Callable[..., Any]] = {}
    for operator, mode in ((_ATEN.lstm, LSTM), (_ATEN.gru, GRU), (_ATEN.rnn_tanh, TANH), (_ATEN.rnn_relu, RELU)):
        found[operator.input] = padded(operator.input, mode)
        found[operator.data] = packed(operator.data, mode)
    return found


def _steps_first(x: Any, width: int, batch_first: bool) -> Any:
    """A tensor like the input, with values of `width`: cuDNN writes step by step also if the batch is the first dimension."""
    if not batch_first:
        return x.new_empty((*x.shape[:-1], width))
    batch, steps, _ = x.shape
    return x.new_empty((steps, batch, width)).transpose(0, 1)


def _rnn(
    x: Any, weight: Any, _stride: int, weight_buf: Any, hx: Any, cx: Any, mode: int, hidden: int, projected: int, layers: int,
    batch_first: bool, dropout: float, train: bool, bidirectional: bool, batch_sizes: Any, *_rest: Any,
) -> Any:  # fmt: skip
    directions = 2 if bidirectional else 1
    output = _steps_first(x, (projected or hidden) * directions, batch_first and not batch_sizes)
    values = math.prod(x.shape[:-1])
    steps = len(batch_sizes) * hx.shape[1] if batch_sizes else values
    kept = reserve_bytes(mode, values, steps, hidden, projected, layers, directions, x.dtype.itemsize, dropout)
    reserve = kept if train else 0
    buffer = x.new_empty(sum(each.numel() for each in weight)) if weight_buf is None else weight_buf
    return (
        output,
        torch.empty_like(hx),
        x.new_empty(0) if cx is None else torch.empty_like(cx),
        x.new_empty(reserve, dtype=torch.uint8),
        buffer,
    )


def _rnn_backward(x: Any, weight: Any, stride: int, _weight_buf: Any, hx: Any, cx: Any, *rest: Any) -> Any:
    batch_first, batch_sizes, output_mask = rest[8], rest[12], rest[-1]
    gradients = []
    if stride < _WITH_BIASES:  # copies, since cuDNN's own have biases too
        gradients = [torch.empty_like(each) for each in weight]
    else:
        buffer, offset = x.new_empty(sum(each.numel() for each in weight)), 0
        for each in weight:
            gradients.append(buffer[offset : offset + each.numel()].view(each.shape))
            offset += each.numel()
    return (
        _steps_first(x, x.size(-1), batch_first and not batch_sizes),
        torch.empty_like(hx, memory_format=torch.contiguous_format),
        None if cx is None else torch.empty_like(cx, memory_format=torch.contiguous_format),
        gradients if output_mask[3] else [],
    )


# ------------------------------------------------------------------------------------------------ recurrent cells

# Values that a cell keeps for each hidden unit (aten/src/ATen/native/cuda/RNN.cu).
_KEPT_BY_GRU_CELL, _GATES_OF_GRU_CELL = 5, 3


def _gru_cell(_gates: Any, _hidden_gates: Any, hx: Any, *_biases: Any) -> Any:
    return torch.empty_like(hx, memory_format=torch.contiguous_format), hx.new_empty(
        hx.size(0), _KEPT_BY_GRU_CELL * hx.size(1)
    )


def _gru_cell_backward(grad_hy: Any, workspace: Any, has_bias: bool) -> Any:
    rows, width = workspace.size(0), workspace.size(1) // _KEPT_BY_GRU_CELL * _GATES_OF_GRU_CELL
    gates = [workspace.new_empty(rows, width) for _ in range(2)]
    biases = [workspace.new_empty(width) if has_bias else None for _ in range(2)]
    return (*gates, torch.empty_like(grad_hy, memory_format=torch.contiguous_format), *biases)


def _lstm_cell(gates: Any, _hidden_gates: Any, cx: Any, *_biases: Any) -> Any:
    states = (torch.empty_like(cx, memory_format=torch.contiguous_format) for _ in range(2))
    return (*states, torch.empty_like(gates, memory_format=torch.contiguous_format))


def _lstm_cell_backward(_grad_hy: Any, _grad_cy: Any, cx: Any, _cy: Any, workspace: Any, has_bias: bool) -> Any:
    bias = workspace.new_empty(workspace.size(1)) if has_bias else None
    return torch.empty_like(workspace), torch.empty_like(cx, memory_format=torch.contiguous_format), bias


# ------------------------------------------------------------------------------------------------ attention, batch normalization


def handled(make: Callable[..., Any]) -> Any:
    """A handler for DryMode: results by `make`, memory by the rules of kernels."""

    def handle(mode: Any, _values: Any, func: Any, args: Any, kwargs: Any) -> Any:
        result = make(*args, **kwargs)
        mode.account(func, args, kwargs, tuple(mode.leaves(result)))
        return result

    return handle


def _attention(mode: Any, _values: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Without gradients, cuDNN's attention allocates no sums of exponentials; PyTorch's fake kernel returns them always."""
    if args[4]:
        return mode.pretend(func, args, kwargs)
    output, sums, *rest = mode.fake(func, args, kwargs)
    result = (output, sums.new_empty(0), *rest)
    mode.account(func, args, kwargs, tuple(mode.leaves(result)))
    return result


def _grid_sampler(x: Any, grid: Any) -> Any:
    return x.new_empty(*x.shape[:2], *grid.shape[1:3])


def _grid_sampler_backward(x: Any, grid: Any, _grad_output: Any) -> Any:
    return torch.empty_like(x), torch.empty_like(grid)


def _encoder_layer(x: Any, *_rest: Any, **_more: Any) -> Any:
    return torch.empty_like(x)


def _multi_head_attention(
    query: Any, key: Any, _value: Any, _width: int, heads: int, _qkv: Any, _qkv_bias: Any, _out: Any, _out_bias: Any, _mask: Any = None,
    need_weights: bool = True, average_attn_weights: bool = True, _mask_type: Any = None,
) -> Any:  # fmt: skip
    batch, rows = query.shape[:2]
    sizes = (batch, rows, key.shape[1]) if average_attn_weights else (batch, heads, rows, key.shape[1])
    return torch.empty_like(query), query.new_empty(sizes if need_weights else 0)


HANDLED: dict[Any, Any] = {
    _ATEN.cudnn_grid_sampler.default: handled(_grid_sampler),
    _ATEN.cudnn_grid_sampler_backward.default: handled(_grid_sampler_backward),
    _ATEN._transformer_encoder_layer_fwd.default: handled(_encoder_layer),
    _ATEN._native_multi_head_attention.default: handled(_multi_head_attention),
    _ATEN._cudnn_rnn.default: handled(_rnn),
    _ATEN._cudnn_rnn_backward.default: handled(_rnn_backward),
    _ATEN._thnn_fused_gru_cell.default: handled(_gru_cell),
    _ATEN._thnn_fused_gru_cell_backward.default: handled(_gru_cell_backward),
    _ATEN._thnn_fused_lstm_cell.default: handled(_lstm_cell),
    _ATEN._thnn_fused_lstm_cell_backward_impl.default: handled(_lstm_cell_backward),
    _ATEN._scaled_dot_product_cudnn_attention.default: _attention,
}


def put_in_place(patches: Patches) -> None:
    patches.put(torch.nn.RNNBase, "flatten_parameters", flatten)

"""Implementations that PyTorch chooses by the GPU, and would choose otherwise without one.

Attention, batch normalization and recurrent layers are decomposed above the dispatch mode, by C++ code that asks the CUDA build
and the GPU which kernel to use. During a dry run the functions below choose, by the rules of that code.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math
from typing import Any

import torch

from vram._texts import tr
from vram.dry import _ctc, _cudnn
from vram.dry._gpu import Gpu
from vram.dry._lines import users_line, warn
from vram.dry._values import DryRunError

_ATEN = torch.ops.aten
_HALF = (torch.float16, torch.bfloat16)
_MASK_ALIGNMENT = 8
# The first PyTorch that prefers cuDNN's attention on Hopper, and the first in which it takes no probability but sixteenths.
_CUDNN_ATTENTION_SINCE, _CUDNN_SIXTEENTHS_SINCE = (2, 10), (2, 12)


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


# ------------------------------------------------------------------------------------------------ attention


class InPlace:
    """A composite operator of PyTorch runs that adds in place, but not to a subclass of tensors, as fake ones are."""

    is_active = False

    def __enter__(self) -> None:
        self.is_active = True

    def __exit__(self, *_error: object) -> None:
        self.is_active = False


class Attention:
    """aten::scaled_dot_product_attention on this GPU."""

    def __init__(self, gpu: Gpu, torch_version: str, in_place: InPlace) -> None:
        self._gpu, self._version, self._in_place = gpu, _version(torch_version), in_place

    def __call__(
        self,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        backend = self._choose(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        if backend == "flash":
            return _flash(query, key, value, dropout_p, is_causal, scale)
        if backend == "math":
            with self._in_place:
                return _ATEN._scaled_dot_product_attention_math(
                    query,
                    key,
                    value,
                    _additive(attn_mask, query),
                    dropout_p,
                    is_causal,
                    None,
                    scale=scale,
                    enable_gqa=enable_gqa,
                )[0]
        mask = _additive(attn_mask, query)
        if backend == "cudnn":
            attend = _ATEN._scaled_dot_product_cudnn_attention
            return attend(query, key, value, mask, needs_gradient, dropout_p, is_causal, False, scale=scale)[0]
        if mask is not None:
            mask = _aligned(mask).expand(query.size(0), query.size(1), query.size(2), key.size(2))
        attend = _ATEN._scaled_dot_product_efficient_attention
        return attend(query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale)[0]

    def _choose(self, q: Any, k: Any, v: Any, mask: Any, dropout: float, is_causal: bool, gqa: bool) -> str:
        cuda: Any = torch.backends.cuda
        order = ["flash", "efficient", "math", "cudnn"]
        if self._gpu.capability[0] in (9, 10) and self._version >= _CUDNN_ATTENTION_SINCE:
            order = ["cudnn", "flash", "efficient", "math"]
        can = {
            "flash": cuda.flash_sdp_enabled() and self._flash_can(q, k, v, mask, dropout, is_causal, gqa),
            "efficient": cuda.mem_efficient_sdp_enabled() and self._efficient_can(q, k, v, mask),
            "cudnn": cuda.cudnn_sdp_enabled() and self._cudnn_can(q, k, v, mask, dropout, gqa),
            "math": cuda.math_sdp_enabled(),
        }
        for backend in order:
            if can[backend]:
                return backend
        raise RuntimeError("No available kernel. Aborting execution.")

    def _is_dense(self, q: Any, k: Any, v: Any, gqa: bool) -> bool:
        if any(t.dim() != 4 for t in (q, k, v)) or any(t.size(2) == 0 for t in (q, k, v)):
            return False
        if not (q.size(0) == k.size(0) == v.size(0)) or k.size(1) != v.size(1):
            return False
        if q.size(1) != k.size(1) and not (gqa and q.size(1) % k.size(1) == 0):
            return False
        return all(t.stride(-1) == 1 or t.size(-1) == 1 for t in (q, k, v))

    def _flash_can(self, q: Any, k: Any, v: Any, mask: Any, dropout: float, is_causal: bool, gqa: bool) -> bool:
        major, minor = self._gpu.capability
        is_small = (8, 6) <= (major, minor) <= (8, 9) or major == 12
        trains = any(t.requires_grad for t in (q, k, v))
        width = q.size(-1)
        return (
            major >= 8
            and mask is None
            and q.dtype in _HALF
            and self._is_dense(q, k, v, gqa)
            and width == k.size(-1) == v.size(-1)
            and width <= 256
            and not (is_causal and q.size(-2) != k.size(-2))
            and not (trains and is_small and not (width <= 192 or (dropout == 0 and width > 224)))
        )

    def _efficient_can(self, q: Any, k: Any, v: Any, mask: Any) -> bool:
        major = self._gpu.capability[0]
        dtypes = (*_HALF, torch.float32) if major >= 8 else (torch.float16, torch.float32)
        alignment = max(4, 8 if q.dtype in _HALF else 4) if major >= 8 else 8 if q.dtype in _HALF and major >= 7 else 1
        return (
            q.dtype in dtypes
            and self._is_dense(q, k, v, gqa=False)  # it refuses grouped heads
            and q.size(-1) == k.size(-1)
            and q.size(-1) % alignment == 0
            and v.size(-1) % alignment == 0
            and all(t.stride(-1) == 1 for t in (q, k, v))
            and (mask is None or mask.stride(-1) == 1)
            and (mask is None or not mask.requires_grad or mask.dim() == 4)
        )

    def _cudnn_can(self, q: Any, k: Any, v: Any, mask: Any, dropout: float, gqa: bool) -> bool:
        widest = 256 if self._gpu.capability == (9, 0) else 128
        return (
            self._gpu.capability[0] >= 8
            and q.dtype in _HALF
            and self._is_dense(q, k, v, gqa)
            and all(t.size(-1) <= widest and t.size(-1) % 8 == 0 for t in (q, v))
            and k.size(2) != 1
            and not (dropout and q.size(2) == 1)
            and (self._version < _CUDNN_SIXTEENTHS_SINCE or dropout * 16 == math.floor(dropout * 16))
            and not (
                torch.are_deterministic_algorithms_enabled()
                and not torch.is_deterministic_algorithms_warn_only_enabled()
            )
            and (mask is None or (mask.stride(-1) == 1 and not mask.requires_grad))
        )


def _additive(mask: Any, query: Any) -> Any:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(-math.inf, dtype=query.dtype, device=mask.device))


def _aligned(mask: Any) -> Any:
    """The kernel reads rows of masks that begin at multiples of 8 elements. What is expanded afterwards is not copied."""
    if mask.stride(-1) == 1 and all(stride % _MASK_ALIGNMENT == 0 for stride in mask.stride()[:-1]):
        return mask
    columns = mask.size(-1)
    return torch.nn.functional.pad(mask, (0, _MASK_ALIGNMENT - columns % _MASK_ALIGNMENT))[..., :columns]


def _flash(query: Any, key: Any, value: Any, dropout: float, is_causal: bool, scale: float | None) -> Any:
    width = query.size(-1)
    missing = -width % 8
    if missing:
        scale = scale if scale is not None else 1 / math.sqrt(width)
        query, key, value = (torch.nn.functional.pad(t, (0, missing)) for t in (query, key, value))
    attend = _ATEN._scaled_dot_product_flash_attention
    output = attend(query, key, value, dropout, is_causal, False, scale=scale)[0]
    return output[..., :width] if missing else output


# ------------------------------------------------------------------------------------------------ batch normalization


def batch_norm(
    input: Any,  # noqa: A002
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    """aten::_batch_norm_impl_index: cuDNN's kernels where it can, else PyTorch's own."""
    if input.numel() == 0:
        output = input.clone()
        if weight is not None:
            output = output * weight[0]
        if bias is not None:
            output = output + bias[0]
        dtype = torch.float32 if input.dtype in _HALF else input.dtype
        statistics = (torch.empty(input.shape[1:2] or 0, dtype=dtype, device=input.device) for _ in range(2))
        return (output, *statistics, torch.empty(0, dtype=torch.uint8, device=input.device), 0)
    has_statistics = running_mean is not None and running_var is not None
    has_none = running_mean is None and running_var is None
    is_cudnn = (
        cudnn_enabled
        and torch.backends.cudnn.enabled
        and weight is not None
        and bias is not None
        and input.dtype != torch.bfloat16
        and weight.dtype != torch.bfloat16
        and (input.dtype != torch.float16 or weight.dtype == torch.float32)
        and (has_statistics or (has_none and training))
        and input.dim() >= 3
        and input.size(0) <= (880801 if training else 65535)
        and eps >= 1e-5
        and input.numel() > 0
    )
    if is_cudnn:
        layout = torch._prims_common.suggest_memory_format(input)
        outputs = _ATEN.cudnn_batch_norm(
            input.contiguous(memory_format=layout), weight, bias, running_mean, running_var, training, momentum, eps
        )
        return (*outputs, 1)
    outputs = _ATEN.native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return (*outputs, torch.empty(0, dtype=torch.uint8, device=input.device), 0)


# ------------------------------------------------------------------------------------------------ convolution


def convolution_format(input: Any, weight: Any, _backend: Any) -> torch.memory_format:  # noqa: A002
    """The layout of cuDNN's results: channels last if an argument has it, except of float64."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(weight.dim())
    formats = [torch._prims_common.suggest_memory_format(tensor) for tensor in (input, weight)]
    if last in formats and torch.backends.cudnn.enabled and torch.float64 not in (input.dtype, weight.dtype):
        return last
    return torch.contiguous_format


def _convolution_double_backward(*args: Any, **kwargs: Any) -> Any:
    """aten::_convolution_double_backward, which makes copies on a GPU alone.

    Called by autograd's engine itself, it would get the answer about devices that is meant for the engine; see DryMode._device_for_autograd().
    """
    return _ATEN._convolution_double_backward.default.decompose(*args, **kwargs)


# ------------------------------------------------------------------------------------------------ classes


def one_hot(self: Any, num_classes: int = -1) -> Any:
    """aten::one_hot, which writes into zeros; fake tensors would be compared with all classes, for compilers."""
    if self.dtype != torch.int64 or self.numel() == 0 or not (num_classes == -1 or num_classes > 0):
        return _ATEN.one_hot.default.decompose(self, num_classes)
    classes = int(self.max().item()) + 1 if num_classes == -1 else num_classes
    return self.new_zeros((*self.shape, classes)).scatter_(-1, self.unsqueeze(-1), 1)


# ------------------------------------------------------------------------------------------------ running products


def cumprod_backward(grad: Any, input: Any, dim: int, output: Any) -> Any:  # noqa: A002
    """aten::cumprod_backward of numbers that are not zero. PyTorch asks whether one is, but not subclasses of tensors, as fake ones are."""
    if any(map(torch._C._functorch.is_functorch_wrapped_tensor, (grad, input, output))):  # nor these, on a GPU, too
        return _ATEN.cumprod_backward.default.decompose(grad, input, dim, output)
    if input.numel() <= 1 or input.size(dim) == 1:
        return grad
    weighted = output.conj() * grad
    is_zero = input == 0
    is_zero.any()
    turned = weighted.flip(dim)
    summed = turned.cumsum(dim)
    back = summed.flip(dim)
    del summed, turned
    result = back.div(input.conj())
    del back, is_zero
    return result


# ------------------------------------------------------------------------------------------------ putting in place


def _no_kernel(*_arguments: Any, **_named: Any) -> Any:
    raise RuntimeError("this build of PyTorch has no kernel of this operator for CUDA")


def _from_another_thread(*_arguments: Any, **_named: Any) -> Any:
    """Make a tensor on the GPU without a mode: PyTorch's modes belong to the thread that entered them.

    The program may catch the error, and its memory is missing then, so there is a warning as well.
    """
    text = tr(
        "a tensor on the GPU is made in a thread that was started before the dry run, which follows only later ones and lacks the memory of this one"
    )
    warn(text)
    raise DryRunError(f"{users_line()}: {text}")


# Operators with a kernel for CUDA and, for devices without one, a decomposition. A build for the CPU would decompose them.
WHOLE = ("silu_backward", "mish_backward", "_fused_rms_norm", "_fused_rms_norm_backward")


class Choices:
    """The functions above in PyTorch's dispatcher, until undo()."""

    def __init__(self, gpu: Gpu, torch_version: str) -> None:
        self.in_place = InPlace()
        self.of: dict[Any, Any] = {
            _ATEN.scaled_dot_product_attention.default: Attention(gpu, torch_version, self.in_place),
            _ATEN.linear.default: self._linear,
            _ATEN._batch_norm_impl_index.default: batch_norm,
            _ATEN.ctc_loss.Tensor: _ctc.loss,
            _ATEN._convolution_double_backward.default: _convolution_double_backward,
            _ATEN.one_hot.default: one_hot,
            _ATEN.cumprod_backward.default: cumprod_backward,
            **_cudnn.recurrent(),
        }
        library: Any = torch.library
        self._library = library.Library("aten", "IMPL")
        for operator, choose in self.of.items():
            self._put(operator, choose)
        for name in ("empty.memory_format", "empty_strided"):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
                self._library.impl(name, _from_another_thread, "CUDA")
        for name in WHOLE:
            if hasattr(_ATEN, name) and not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CUDA"):
                self._library.impl(name, _no_kernel, "CUDA")

    def _linear(self, *args: Any, **kwargs: Any) -> Any:
        with self.in_place:  # the bias, if the input is not contiguous
            return _ATEN.linear.default.decompose(*args, **kwargs)

    def _put(self, operator: Any, choose: Any) -> None:
        self._library.impl(operator, lambda *args, **kwargs: choose(*args, **kwargs), "AutogradCUDA")

    def undo(self) -> None:
        self._library._destroy()

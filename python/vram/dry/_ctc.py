"""CTC losses, for which PyTorch has no fake kernels: which of its two kernels runs, and the sizes of results."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram._texts import tr
from vram.dry._cudnn import handled
from vram.dry._lines import users_line
from vram.dry._values import DryRunError

_ATEN = torch.ops.aten
_MAX_CUDNN_LABEL = 255  # aten/src/ATen/native/cudnn/LossCTC.cpp


def _steps(scores: Any, lengths: Any) -> list[int]:
    """The lengths of inputs; those on the GPU count as full."""
    return [int(scores.size(0))] * lengths.numel() if isinstance(lengths, FakeTensor) else lengths.reshape(-1).tolist()


def _labels(labels: Any, lengths: Any) -> list[int]:
    """The lengths of labels; if they are on the GPU, labels that are the rows of a tensor count as full."""
    if not isinstance(lengths, FakeTensor):
        found: list[int] = lengths.reshape(-1).tolist()
        return found
    if labels.dim() == 2:
        return [int(labels.size(1))] * int(labels.size(0))
    raise DryRunError(
        tr(
            "{}: aten::ctc_loss needs the lengths of labels that lie one behind the other, and a dry "
            "run has no values of the GPU; leave target_lengths on the CPU, where PyTorch needs them "
            "as well, or pad the labels to the rows of one tensor"
        ).format(users_line())
    )


def loss(
    scores: Any,
    labels: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Any:
    """aten::ctc_loss with lengths in tensors. PyTorch reads them, unless cuDNN takes them as they are."""
    steps, lengths = _steps(scores, input_lengths), _labels(labels, target_lengths)
    return _ATEN.ctc_loss.IntList(scores, labels, steps, lengths, blank, reduction, zero_infinity)


def _use_cudnn(_mode: Any, _values: Any, _func: Any, args: Any, kwargs: Any) -> bool:
    scores, labels, steps, lengths = args[:4]
    return (
        torch.backends.cudnn.enabled
        and (args[4] if len(args) > 4 else kwargs["blank"]) == 0
        and scores.dtype == torch.float32
        and scores.dim() == 3
        and labels.dtype == torch.int32
        and labels.dim() == 1
        and labels.is_contiguous()
        and labels.device.type == "cpu"
        and all(each == scores.size(0) for each in steps)
        and all(n <= _MAX_CUDNN_LABEL and n <= m for n, m in zip(lengths, steps))
    )


def _loss(scores: Any, _labels: Any, _steps: Any, lengths: Any, *_rest: Any, **_named: Any) -> Any:
    sequences = scores.shape[1] if scores.dim() == 3 else 1
    shape = (sequences, scores.shape[0], 2 * max(lengths, default=0) + 1)
    return scores.new_empty(sequences), scores.new_empty(shape)


def _backward(_gradient: Any, scores: Any, *_rest: Any, **_named: Any) -> Any:
    return torch.empty_like(scores, memory_format=torch.contiguous_format)


def _cudnn_loss(scores: Any, *_rest: Any, **_named: Any) -> Any:
    return scores.new_empty(scores.shape[1]), torch.empty_like(scores, memory_format=torch.contiguous_format)


HANDLED: dict[Any, Any] = {
    _ATEN._use_cudnn_ctc_loss.default: _use_cudnn,
    _ATEN._ctc_loss.default: handled(_loss),
    _ATEN._ctc_loss_backward.default: handled(_backward),
    _ATEN._cudnn_ctc_loss.default: handled(_cudnn_loss),
}
if hasattr(_ATEN, "_use_miopen_ctc_loss"):  # of AMD's GPUs; since PyTorch 2.11
    HANDLED[_ATEN._use_miopen_ctc_loss.default] = lambda *_: False

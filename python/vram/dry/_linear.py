"""Which modules are linear layers: PyTorch's, and the Conv1D of Hugging Face transformers, GPT-2's, whose weight is transposed."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn


def sizes_of(module: Any) -> tuple[int, int] | None:
    """Return the number of inputs and of outputs of a linear layer; None: it is another module."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    conv1d = getattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D", None)
    if conv1d is not None and isinstance(module, conv1d):
        inputs, outputs = module.weight.shape
        return inputs, outputs
    return None

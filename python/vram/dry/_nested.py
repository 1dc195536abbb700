"""Nested tensors of the jagged layout: which kernel of attention PyTorch chooses for them on this GPU, and ragged sizes that move to it."""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import torch
from torch.nested._internal import nested_tensor, sdpa
from torch.nn.attention import SDPBackend

from vram.dry._gpu import Gpu
from vram.dry._patches import Patches
from vram.dry._tensors import is_on_gpu

_HALF = (torch.float16, torch.bfloat16)


def put_in_place(patches: Patches, gpu: Gpu) -> None:
    """Let attention choose by the rules of PyTorch's code for nested tensors."""
    choose = sdpa._select_sdp_backend

    def chosen(query: Any, key: Any, value: Any, *rest: Any) -> Any:
        if not is_on_gpu(query._values):
            return choose(query, key, value, *rest)
        cuda: Any = torch.backends.cuda
        width = query.size(-1)
        has_kernels = gpu.capability >= (8, 0)
        fits_flash = width % 8 == 0 and width <= 256 and width == key.size(-1) == value.size(-1)
        if cuda.flash_sdp_enabled() and has_kernels and query.dtype in _HALF and fits_flash:
            return SDPBackend.FLASH_ATTENTION
        dtypes = (*_HALF, torch.float32) if has_kernels else (torch.float16, torch.float32)
        if cuda.mem_efficient_sdp_enabled() and query.dtype in dtypes:
            return SDPBackend.EFFICIENT_ATTENTION
        return SDPBackend.MATH

    patches.put(sdpa, "_select_sdp_backend", chosen)
    # A copy on the GPU has the ragged size of its original, which PyTorch looks for where fake tensors have it.
    patches.put(torch.Tensor, "nested_int_memo", property(nested_tensor._tensor_symint_registry.get))

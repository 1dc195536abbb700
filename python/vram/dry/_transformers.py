"""Hugging Face transformers takes fake tensors for a sign of compilation; in a dry run it has to decide as in a real one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry._patches import Patches
from vram.dry._values import Values

_MASKS = "transformers.masking_utils"
_FIND, _IS_TRACING = "find_packed_sequence_indices", "is_tracing"


def put_in_place(patches: Patches, values: Values) -> Callable[[], None]:
    """Let attention masks be skipped where a batch without padding and packing needs none. Returns what ends it.

    Each sequence counts as one: whether several are packed into it depends on position numbers, whose values a dry run does not have. The library
    looks at the padding; where that is not known, there is some (_readers.NEGATED). The library may be imported after the dry run has
    begun, so it is looked for when a model is called.
    """

    def look(_module: Any, _arguments: Any) -> None:
        masks = sys.modules.get(_MASKS)
        original = getattr(masks, _FIND, None)
        if original is None or original.__module__ == __name__:
            return
        is_tracing = getattr(masks, _IS_TRACING, None)

        def unpacked(position_ids: Any) -> Any:
            if not isinstance(position_ids, FakeTensor):
                return original(position_ids)
            with values.assuming(True):  # it reads whether all positions are those of the first sequence
                original(position_ids)
            return None

        patches.put(masks, _FIND, unpacked)
        if is_tracing is not None:
            patches.put(
                masks,
                _IS_TRACING,
                lambda tensor=None: bool(is_tracing(None if isinstance(tensor, FakeTensor) else tensor)),
            )

    return torch.nn.modules.module.register_module_forward_pre_hook(look).remove

"""Hugging Face transformers takes fake tensors for a sign of compilation; in a dry run it has to decide as in a real one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry import _known
from vram.dry._patches import Patches
from vram.dry._values import Values

_MASKS = "transformers.masking_utils"
_FIND, _IS_TRACING = "find_packed_sequence_indices", "is_tracing"


def put_in_place(patches: Patches, values: Values) -> Callable[[], None]:
    """Let attention masks be skipped where a batch without padding and packing needs none. Returns what ends it.

    Each sequence counts as one: whether several are packed into it depends on position numbers, whose values a dry run does not have. Where
    padding is known, as of a mask of ones, the library looks at it; otherwise it builds the mask that padding needs. The
    library may be imported after the dry run has begun, so it is looked for when a model is called.
    """

    def look(_module: Any, _arguments: Any) -> None:
        masks = sys.modules.get(_MASKS)
        original = getattr(masks, _FIND, None)
        if original is None or original.__module__ == __name__:
            return
        is_tracing = getattr(masks, _IS_TRACING, None)
        here = threading.local()

        def unpacked(position_ids: Any) -> Any:
            if not isinstance(position_ids, FakeTensor):
                return original(position_ids)
            here.is_finding = True
            try:
                with values.assuming(True):  # it reads whether all positions are those of the first sequence
                    original(position_ids)
            finally:
                here.is_finding = False
            return None

        patches.put(masks, _FIND, unpacked)
        if is_tracing is not None:

            def traced(tensor: Any = None) -> bool:
                if getattr(here, "is_finding", False):
                    return False
                is_known = isinstance(tensor, FakeTensor) and _known.value_of(tensor) is not None
                return bool(is_tracing(None if is_known else tensor))

            patches.put(masks, _IS_TRACING, traced)

    return torch.nn.modules.module.register_module_forward_pre_hook(look).remove

"""Hugging Face transformers takes fake tensors for a sign of compilation; in a dry run it has to decide as in a real one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from vram.dry._patches import Patches

_MASKS = "transformers.masking_utils"
_FIND = "find_packed_sequence_indices"


def put_in_place(patches: Patches) -> Callable[[], None]:
    """Let attention masks be skipped where a batch without padding and packing needs none. Returns what ends it.

    Each sequence counts as one: whether several are packed into it depends on position numbers, whose values a dry run does not have. The
    library may be imported after the dry run has begun, so it is looked for when a model is called.
    """

    def look(_module: Any, _arguments: Any) -> None:
        masks = sys.modules.get(_MASKS)
        original = getattr(masks, _FIND, None)
        if original is None or original.__module__ == __name__:
            return

        def unpacked(position_ids: Any) -> Any:
            found = original(position_ids)
            if found is None or not isinstance(position_ids, FakeTensor):
                return found
            torch.all(found[:, -1] == 0)  # a real run reads this
            return None

        patches.put(masks, _FIND, unpacked)

    return torch.nn.modules.module.register_module_forward_pre_hook(look).remove

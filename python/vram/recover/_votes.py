"""What ranks tell one another about an attempt, on the CPU over gloo, where no GPU memory is needed.

All ranks of a group make the same calls in the same order, whatever happened to each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vram._error import VramError
from vram._texts import tr

WORKED, OUT_OF_MEMORY, BROKEN = range(3)  # in this order: the worst that any rank says counts
_TEXT_BYTES = 300  # of a rank's error, for the others
# By id() of the user's group, which is held: another could get its id, and ranks would not agree on whether that is new.
_side_groups: dict[int, tuple[Any, Any]] = {}


def world_size() -> int:
    """Of torch.distributed; 1 where it is not in use."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def refuse_unknown_ranks(group: Any, function: str) -> None:
    """Raise VramError if there are several ranks and it is unknown which act together. group: False states that none do."""
    if group is None and world_size() > 1:
        raise VramError(
            tr(
                "torch.distributed runs {} ranks, and {} does not know which of them call it together: "
                "if one ran out of memory, the others would wait for it. Pass "
                "group=torch.distributed.group.WORLD (they agree on sizes and outcomes), or group=False "
                "if this rank works by itself"
            ).format(world_size(), function)
        )


class Votes:
    """Among the ranks of a group; None or False: this rank is alone. To make one is a collective."""

    def __init__(self, group: Any) -> None:
        self._torch: Any = sys.modules.get("torch")
        self._group = self._over_gloo(group) if group else None

    @property
    def alone(self) -> bool:
        return self._group is None

    def worst(self, status: int, size: int = 0) -> tuple[int, int]:
        """Of the status and of the size: the largest that any rank has. VramError: another rank is broken."""
        if self._group is None:
            return status, size
        worst, largest = self.largest([status, size])
        if worst == BROKEN:
            texts = self._texts("" if status == BROKEN else None)
            if status != BROKEN:
                raise VramError(
                    tr("another rank failed by an error that is not about memory; its own output says more. {}").format(
                        texts
                    )
                )
        return worst, largest

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Send an error within the block to the other ranks, which wait in their next worst(), and raise it again."""
        try:
            yield
        except BaseException as error:
            if self._group is not None:
                self.largest([BROKEN, 0])
                self._texts(f"{type(error).__name__}: {error}")
            raise

    def largest(self, values: list[int]) -> list[int]:
        """Each of them on the rank where it is largest."""
        if self._group is None:
            return values
        distributed = self._torch.distributed
        tensor = self._torch.tensor(values, dtype=self._torch.int64)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group)
        largest: list[int] = tensor.tolist()
        return largest

    def all(self, values: list[int]) -> list[list[int]]:
        """Everybody's, by rank. As many on each."""
        if self._group is None:
            return [values]
        distributed, torch = self._torch.distributed, self._torch
        gathered = [torch.zeros(len(values), dtype=torch.int64) for _ in range(distributed.get_world_size(self._group))]
        distributed.all_gather(gathered, torch.tensor(values, dtype=torch.int64), group=self._group)
        return [tensor.tolist() for tensor in gathered]

    def _texts(self, mine: str | None) -> str:
        """What the broken ranks say; None: this one is not broken."""
        said = (mine or "").encode()[:_TEXT_BYTES]
        everybody = self.all([*said, *[0] * (_TEXT_BYTES - len(said))])
        texts = [bytes(text).rstrip(b"\0").decode(errors="replace") for text in everybody]
        return "; ".join(tr("rank {} of the group: {}").format(rank, text) for rank, text in enumerate(texts) if text)

    def _over_gloo(self, group: Any) -> Any:
        """Of the same ranks. To make one is a collective."""
        distributed = self._torch.distributed
        if distributed.get_backend(group) == "gloo":
            return group
        if id(group) not in _side_groups:
            ranks = distributed.get_process_group_ranks(group)
            side = distributed.new_group(ranks, backend="gloo", use_local_synchronization=True)
            _side_groups[id(group)] = group, side
        return _side_groups[id(group)][1]

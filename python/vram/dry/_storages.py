"""The made-up memory of fake tensors: a block for each storage, from its birth to its death.

A storage dies when the last tensor with it does, of Python or of autograd: PyTorch then ends the storage's Python object, too,
which a weak reference tells. Views share the storage and are no births.
"""

from __future__ import annotations

import weakref
from typing import Any

from vram.dry._tape import Tape


class _Block:
    """The memory of one storage; without an address if its size is 0."""

    __slots__ = ("address", "device", "reference", "size_bytes", "stream")

    def __init__(self, device: int, stream: int) -> None:
        self.device, self.stream = device, stream
        self.size_bytes = self.address = 0
        self.reference: Any = None


class Storages:
    """The blocks of a dry run."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._blocks: dict[int, _Block] = {}

    def knows(self, storage: Any) -> bool:
        return storage._cdata in self._blocks

    def add(self, storage: Any, device: int, stream: int) -> None:
        """A storage was born."""
        key = storage._cdata
        block = _Block(device, stream)
        self._resize(block, storage.nbytes())
        self._blocks[key] = block
        blocks, resize = self._blocks, self._resize

        def died(reference: Any) -> None:
            if key in blocks and blocks[key].reference is reference:
                resize(blocks.pop(key), 0)

        block.reference = weakref.ref(storage, died)

    def update(self, storage: Any) -> None:
        """The storage may have another size now: it then lies elsewhere."""
        block = self._blocks.get(storage._cdata)
        if block is not None and block.size_bytes != storage.nbytes():
            self._resize(block, storage.nbytes())

    def place(self, storage: Any) -> tuple[int, int, int] | None:
        """Device, address and bytes; None: it has no memory."""
        block = self._blocks.get(storage._cdata)
        return None if block is None or not block.size_bytes else (block.device, block.address, block.size_bytes)

    def _resize(self, block: _Block, size_bytes: int) -> None:
        """As resize_() does: the new memory comes first, then the contents are copied."""
        before = block.address, block.size_bytes
        if size_bytes:
            block.address = self._tape.allocate(block.device, size_bytes, block.stream)
        block.size_bytes = size_bytes
        if before[1]:
            self._tape.free(block.device, *before, block.stream)

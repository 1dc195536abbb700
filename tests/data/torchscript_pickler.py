"""The pickles PyTorch writes from C++ (torch::cuda::_memory_snapshot_pickled): protocol 2 as TorchScript's Pickler does it.

Texts are memoised by value, a container only once it is complete and only if it is used again; integers beyond 32 bits
always take 8 bytes; all items of a container follow one MARK, and an empty list is followed by MARK and APPENDS too.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any


class TorchScriptPickler:
    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.texts: dict[str, int] = {}
        self.objects: dict[int, int] = {}
        self.uses: Counter[int] = Counter()
        self.memo_size = 0

    def dumps(self, value: Any) -> bytes:
        self.count_uses(value)
        self.push(value)
        return bytes(self.out + b".")

    def count_uses(self, value: Any) -> None:
        if isinstance(value, list | dict):
            self.uses[id(value)] += 1
            if self.uses[id(value)] == 1:
                for item in value.values() if isinstance(value, dict) else value:
                    self.count_uses(item)

    def put(self) -> int:
        index = self.memo_size
        self.memo_size += 1
        self.out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)
        return index

    def get(self, index: int) -> None:
        self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)

    def push(self, value: Any) -> None:
        if id(value) in self.objects:
            self.get(self.objects[id(value)])
            return
        self.push_new(value)
        if self.uses[id(value)] > 1:
            self.objects[id(value)] = self.put()

    def push_new(self, value: Any) -> None:
        if value is None:
            self.out += b"N"
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            self.push_int(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self.push_text(value)
        elif isinstance(value, tuple):
            self.push_tuple(value)
        elif isinstance(value, list):
            self.out += b"]("
            for item in value:
                self.push(item)
            self.out += b"e"
        elif isinstance(value, dict):
            self.out += b"}("
            for key, item in value.items():
                self.push(key)
                self.push(item)
            self.out += b"u"
        else:
            raise TypeError(type(value))

    def push_int(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 1 << 16:
            self.out += b"M" + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:  # the C++ side holds int64: an unsigned one wraps
            self.out += b"\x8a\x08" + struct.pack("<Q", value % (1 << 64))

    def push_text(self, value: str) -> None:
        if value in self.texts:
            self.get(self.texts[value])
            return
        encoded = value.encode()
        self.out += b"X" + struct.pack("<I", len(encoded)) + encoded
        self.texts[value] = self.put()

    def push_tuple(self, value: tuple[Any, ...]) -> None:
        if len(value) > 3:
            self.out += b"("
        for item in value:
            self.push(item)
        self.out += [b")", b"\x85", b"\x86", b"\x87"][len(value)] if len(value) < 4 else b"t"

"""Protocol buffers' wire format, as little of it as a profile needs. Every read stays within its bytes.

A message is a row of fields; a field is a key (its number and how it is written) and a value. See
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

from vram._error import VramError
from vram._texts import tr

Value = Union[int, memoryview]  # a number, or the bytes of a text, a message or packed numbers

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


def fields(message: memoryview) -> Iterator[tuple[int, Value]]:
    """The number and the value of each. VramError: it is no message."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise VramError(
                tr("not a profile: a field is written in the way {}, which no field of one is").format(kind)
            )
        if size > len(message) - at:
            raise VramError(
                tr("not a whole profile: a field has {} bytes, of which {} are there").format(size, len(message) - at)
            )
        yield key >> 3, message[at : at + size]
        at += size


def numbers(value: Value) -> list[int]:
    """Of a field that repeats numbers: one of them, or all in one go."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def number(value: Value) -> int:
    if isinstance(value, int):
        return value
    raise VramError(tr("not a profile: a number was expected, {} bytes were found").format(len(value)))


def submessage(value: Value) -> memoryview:
    if isinstance(value, int):
        raise VramError(tr("not a profile: a message or text was expected, the number {} was found").format(value))
    return value


def signed(value: int) -> int:
    """As int64 is written: two's complement."""
    return value - (1 << 64) if value >> 63 else value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number, and where the next begins."""
    value = 0
    for index, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + index + 1
    raise VramError(tr("not a whole profile: it ends, or goes astray, within a number"))

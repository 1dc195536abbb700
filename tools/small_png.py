#!/usr/bin/env python3
"""Makes PNG files of screens smaller: a palette of at most 256 colours instead of three bytes a pixel.

tools/small_png.py FILE...

Where a picture has more colours, those that differ by less than the eye sees (up to 1/16 of a channel) become one. Pictures
with more colours even so, as photographs have, stay as they are.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB, PALETTE, RGBA = 2, 3, 6
BYTES = {RGB: 3, RGBA: 4}
ROUNDINGS = (1, 4, 6, 8, 12, 16)  # of a channel


class NoScreen(Exception):
    """The file is no PNG of 8 bits a channel without gaps, as browsers write."""


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(SIGNATURE)
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size


def read(data: bytes) -> tuple[int, int, bytes]:
    """Return width, height and the pixels, three bytes each.

    Raises:
        NoScreen: see there.
    """
    chunks = list(_chunks(data)) if data.startswith(SIGNATURE) else []
    if not chunks or chunks[0][0] != b"IHDR":
        raise NoScreen("expected a PNG file")
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or colours not in BYTES or interlaced:
        raise NoScreen(
            f"expected 8 bits a channel, RGB or RGBA, not interlaced; found {depth} bits, colour type {colours}"
        )
    raw = zlib.decompress(b"".join(content for name, content in chunks if name == b"IDAT"))
    size = BYTES[colours]
    rows = _unfiltered(raw, width * size, height, size)
    if colours == RGB:
        return width, height, b"".join(rows)
    whole = b"".join(rows)
    if whole[3::4].count(255) != width * height:
        raise NoScreen("expected an opaque picture")
    pixels = bytearray(width * height * 3)
    for channel in range(3):
        pixels[channel::3] = whole[channel::4]
    return width, height, bytes(pixels)


def _unfiltered(raw: bytes, row_bytes: int, height: int, size: int) -> Iterator[bytearray]:
    before = bytearray(row_bytes)
    for y in range(height):
        start = y * (row_bytes + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + row_bytes])
        for x in range(row_bytes if kind else 0):
            left = row[x - size] if x >= size else 0
            up = before[x]
            if kind == 1:
                guess = left
            elif kind == 2:
                guess = up
            elif kind == 3:
                guess = (left + up) // 2
            else:
                corner = before[x - size] if x >= size else 0
                ways = left + up - corner
                guess = min((left, up, corner), key=lambda each: abs(ways - each))
            row[x] = (row[x] + guess) & 255
        yield row
        before = row


def _rounded(pixels: bytes, by: int) -> bytes:
    table = bytes(min(255, (value + by // 2) // by * by) for value in range(256))
    return pixels.translate(table)


def smaller(data: bytes) -> bytes:
    """Return the picture with a palette, or `data` if it has too many colours.

    Raises:
        NoScreen: see there.
    """
    width, height, pixels = read(data)
    for by in ROUNDINGS:
        rounded = _rounded(pixels, by)
        colours = [rounded[at : at + 3] for at in range(0, len(rounded), 3)]
        palette = sorted(set(colours))
        if len(palette) > 256:
            continue
        index = {colour: number for number, colour in enumerate(palette)}
        indexes = bytes(map(index.__getitem__, colours))
        rows = b"".join(b"\0" + indexes[y * width : (y + 1) * width] for y in range(height))
        made = SIGNATURE + b"".join(
            _chunk(name, content)
            for name, content in (
                (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, PALETTE, 0, 0, 0)),
                (b"PLTE", b"".join(palette)),
                (b"IDAT", zlib.compress(rows, 9)),
                (b"IEND", b""),
            )
        )
        return min(made, data, key=len)
    return data


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def shrink(picture: Path) -> None:
    """Make a file smaller, if that is possible.

    Raises:
        NoScreen: see there.
    """
    data = picture.read_bytes()
    made = smaller(data)
    if len(made) < len(data):
        picture.write_bytes(made)


def main() -> int:
    if len(sys.argv) < 2:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    try:
        for name in sys.argv[1:]:
            shrink(Path(name))
    except (NoScreen, OSError) as failure:
        print(f"error: {name}: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

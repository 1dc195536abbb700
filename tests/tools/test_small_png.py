"""tools/small_png.py: what it reads, and that it changes no pixel by more than it says."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest

import small_png

WIDTH, HEIGHT = 40, 30


def paeth(left: int, up: int, corner: int) -> int:
    ways = left + up - corner
    return min((left, up, corner), key=lambda each: abs(ways - each))


def png(pixels: bytes, size: int, *, depth: int = 8) -> bytes:
    """Write rows with each of the filters, as encoders do."""
    row_bytes = WIDTH * size
    raw, before = bytearray(), bytes(row_bytes)
    for y in range(HEIGHT):
        row = pixels[y * row_bytes : (y + 1) * row_bytes]
        kind = y % 5
        raw.append(kind)
        for x, value in enumerate(row):
            left = row[x - size] if x >= size else 0
            corner = before[x - size] if x >= size else 0
            guess = (0, left, before[x], (left + before[x]) // 2, paeth(left, before[x], corner))[kind]
            raw.append((value - guess) & 255)
        before = row
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, {3: 2, 4: 6}[size], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(raw))), (b"IEND", b""))
    return small_png.SIGNATURE + b"".join(small_png._chunk(*part) for part in parts)


def of_palette(data: bytes) -> bytes:
    chunks = dict(small_png._chunks(data))
    raw = zlib.decompress(chunks[b"IDAT"])
    palette = chunks[b"PLTE"]
    rows = (raw[y * (WIDTH + 1) + 1 : (y + 1) * (WIDTH + 1)] for y in range(HEIGHT))
    return b"".join(palette[3 * index : 3 * index + 3] for row in rows for index in row)


@pytest.mark.parametrize("size", [3, 4])
def test_few_colours_stay_as_they_are(size: int) -> None:
    chance = random.Random(1)
    colours = [bytes(chance.randrange(256) for _ in range(3)) for _ in range(9)]
    pixels = [chance.choice(colours) for _ in range(WIDTH * HEIGHT)]
    data = png(b"".join(pixel + b"\xff" * (size - 3) for pixel in pixels), size)
    assert small_png.read(data) == (WIDTH, HEIGHT, b"".join(pixels))
    made = small_png.smaller(data)
    assert len(made) < len(data)
    assert of_palette(made) == b"".join(pixels)


def test_shades_of_edges_become_one_where_they_hardly_differ() -> None:
    shades = [(shade, shade // 2 + step % 3) for step, shade in enumerate(i % 256 for i in range(WIDTH * HEIGHT))]
    random.Random(3).shuffle(shades)
    pixels = b"".join(bytes((red, green, 40)) for red, green in shades)
    assert len(set(shades)) > 256
    made = small_png.smaller(png(pixels, 3))
    assert len(dict(small_png._chunks(made))[b"PLTE"]) <= 3 * 256
    difference = max(abs(a - b) for a, b in zip(of_palette(made), pixels, strict=True))
    assert 0 < difference <= max(small_png.ROUNDINGS) // 2


def test_a_photograph_stays_as_it_is() -> None:
    chance = random.Random(2)
    data = png(bytes(chance.randrange(256) for _ in range(WIDTH * HEIGHT * 3)), 3)
    assert small_png.smaller(data) == data


def test_what_is_no_screen_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"nonsense", png(bytes(WIDTH * HEIGHT * 3), 3, depth=16), png(bytes(WIDTH * HEIGHT * 4), 4)):
        with pytest.raises(small_png.NoScreen):
            small_png.smaller(data)
    path = tmp_path / "screen.png"
    path.write_bytes(png(bytes(WIDTH * HEIGHT * 3), 3))
    small_png.shrink(path)
    assert of_palette(path.read_bytes()) == bytes(WIDTH * HEIGHT * 3)

"""vram.jax.import_profile() with profiles that the tests write byte by byte, valid and damaged."""

from __future__ import annotations

import gzip
import os
import random
import sys
from pathlib import Path

import pytest

import vram
from vram import jax


def varint(number: int) -> bytes:
    """As protocol buffers write it: seven bits a byte, the lowest first."""
    number &= (1 << 64) - 1
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def of_number(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def of_bytes(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


TEXTS = ["", "allocations", "count", "space", "bytes", "kind", "buffer", "device", "gpu:0", "zeros", "/x/jax/numpy.py"]
TEXTS += ["main", "/home/me/train.py", "gpu:1"]
COLUMNS = of_bytes(1, of_number(1, 1) + of_number(2, 2)) + of_bytes(1, of_number(1, 3) + of_number(2, 4))


def sample(locations: list[int], count: int, size: int, device: int = 8) -> bytes:
    labels = of_bytes(3, of_number(1, 5) + of_number(2, 6)) + of_bytes(3, of_number(1, 7) + of_number(2, device))
    packed = of_bytes(1, b"".join(map(varint, locations))) + of_bytes(2, varint(count) + varint(size))
    return of_bytes(2, packed + labels)


def places() -> bytes:
    """Location 1: zeros (numpy.py:70), called from location 2: main (train.py:300)."""
    lines = [(1, 1, 70), (2, 2, 300)]
    found = b"".join(
        of_bytes(4, of_number(1, at) + of_bytes(4, of_number(1, function) + of_number(2, line)))
        for at, function, line in lines
    )
    for function, name, file in ((1, 9, 10), (2, 11, 12)):
        found += of_bytes(5, of_number(1, function) + of_number(2, name) + of_number(4, file))
    return found


def profile(*samples: bytes) -> bytes:
    return COLUMNS + b"".join(samples) + places() + b"".join(of_bytes(6, text.encode()) for text in TEXTS)


def test_sites_have_bytes_count_kind_device_and_stack() -> None:
    found = jax.import_profile(profile(sample([1, 2], 1, 4096), sample([1], 2, 1 << 20), sample([1, 2], 1, 512)))
    zeros, main = jax.Frame("zeros", "/x/jax/numpy.py", 70), jax.Frame("main", "/home/me/train.py", 300)
    assert found.sites == (
        jax.Site(1 << 20, 2, "buffer", "gpu:0", (zeros,)),
        jax.Site(4096 + 512, 2, "buffer", "gpu:0", (zeros, main)),  # of two samples
    )
    assert found.bytes == (1 << 20) + 4608
    assert str(found).splitlines() == [
        "1 MiB at 2 sites",
        "1 MiB in 2 buffers on gpu:0: zeros (numpy.py:70)",
        "4.5 KiB in 2 buffers on gpu:0: main (train.py:300)",  # the program's own line, not JAX's
    ]


def test_devices_are_apart() -> None:
    found = jax.import_profile(profile(sample([2], 1, 10), sample([2], 1, 20, device=13)))
    assert [(site.device, site.bytes) for site in found.sites] == [("gpu:1", 20), ("gpu:0", 10)]


def test_one_site_is_singular() -> None:
    assert str(jax.import_profile(profile(sample([2], 1, 1 << 20)))).startswith("1 MiB at 1 site\n")


def test_packed_or_not_gzipped_or_not_from_a_file_or_bytes(tmp_path: Path) -> None:
    one_by_one = of_bytes(2, of_number(1, 2) + of_number(2, 1) + of_number(2, 77))
    whole = profile(one_by_one)
    file = tmp_path / "memory.prof"
    file.write_bytes(gzip.compress(whole, mtime=0))
    expected = (jax.Site(77, 1, "", "", (jax.Frame("main", "/home/me/train.py", 300),)),)
    assert [jax.import_profile(source).sites for source in (whole, file, str(file))] == [expected] * 3


def test_fields_that_are_not_known_are_passed_over() -> None:
    strange = of_number(99, 5) + varint(98 << 3 | 1) + bytes(8) + varint(97 << 3 | 5) + bytes(4) + of_bytes(96, b"x")
    assert jax.import_profile(strange + profile(sample([1], 1, 5))).bytes == 5


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], "ends too soon"),
        (b"\x1f\x8bnonsense", "its gzip can't be unpacked"),
        (gzip.compress(bytes((64 << 20) + 1)), "more than 64 MiB"),
        (b"\x0b", "written in the way 3"),
        (b"\x32\x7fx", "has 127 bytes, of which 1 are there"),
        (b"\xff" * 11, "within a number"),
        (COLUMNS + sample([1], 1, 5), "it names text 2, and has 0"),
        (profile(of_bytes(2, of_number(2, 5))), "has 1 values for 2 columns"),
        (of_number(2, 1), "a message or text was expected, the number 1 was found"),
        (sample([], 1, 1), "this one counts nothing"),
    ],
)
def test_what_is_no_profile_is_an_error_that_says_why(source: bytes, said: str) -> None:
    with pytest.raises(vram.VramError, match=said):
        jax.import_profile(source)


def test_any_spoiled_profile_is_read_or_refused() -> None:
    """Cut at every length, and with bytes changed: nothing but VramError comes."""
    whole = profile(sample([1, 2], 1, 4096), sample([2], 2, 1 << 40))
    spoiled = [whole[:length] for length in range(len(whole))]
    chance = random.Random(5)
    for _ in range(3000):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        spoiled.append(bytes(changed))
    refused = 0
    for source in spoiled:
        try:
            jax.import_profile(source)
        except vram.VramError:
            refused += 1
    assert len(whole) // 2 < refused < len(spoiled)


@pytest.mark.skipif("jax" in sys.modules, reason="jax is imported")
def test_asking_jax_before_it_is_imported_is_an_error() -> None:
    with pytest.raises(vram.VramError, match="has not imported jax"):
        jax.import_profile()


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="more than 0 and at most 1, got 75"):
        jax.memory_fraction(75)
    with pytest.raises(ValueError, match=r"expected name to be one of 'default', .*, got 'pool'"):
        jax.allocator("pool")


def test_the_fraction_keeps_the_name_that_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.9")
    jax.memory_fraction(0.5)
    assert os.environ["XLA_CLIENT_MEM_FRACTION"] == "0.5"
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in os.environ

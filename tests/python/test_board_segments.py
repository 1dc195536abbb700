"""A program with a vram.Board lists its segments on request through its status page: which, when, and at what cost."""

from __future__ import annotations

import pathlib

import pytest
from asked_program import SEGMENTS, STAND_IN
from test_board_trim import pytestmark, run

__all__ = ["pytestmark"]

# Asks this process, and takes its list from the file next to its page.
LISTING = f"""{STAND_IN}{SEGMENTS}
import struct
LISTS = 3224
def ask_segments(number):
    with (folder / str(os.getpid())).open("r+b") as page:
        page.seek(asked_program.SEGMENTS_REQUEST)
        page.write(struct.pack("=Q", number))
def lists():
    with (folder / str(os.getpid())).open("rb") as page:
        page.seek(LISTS)
        return struct.unpack("=Q", page.read(8))[0]
def answered():
    with (folder / str(os.getpid())).open("rb") as page:
        page.seek(asked_program.SEGMENTS_REQUEST)
        _, _, _, number, bytes_ = struct.unpack("=5Q", page.read(40))
    return number, "failed" if bytes_ == asked_program.UNKNOWN else bytes_
def files():
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("segments"))
def sums():
    data = (folder / files()[0]).read_bytes()
    _, _, segments, blocks, total, count, block_count = struct.unpack_from("=7Q", data)
    sizes = [struct.unpack_from("=4Q2I", data, 56 + 40 * i)[2] for i in range(count)]
    rows = [struct.unpack_from("=3Q", data, 56 + 40 * count + 24 * i) for i in range(block_count)]
    assert len(data) == 56 + 40 * count + 24 * block_count and sum(sizes) == total
    return segments, blocks, total, sum(size for size, _, state in rows if state == 1)
"""


def test_the_list_is_that_of_pytorch(tmp_path: pathlib.Path) -> None:
    body = f"""{LISTING}
board = vram.Board()
print(lists(), answered())
post_step(1, 1000)
print(lists(), answered(), files())
ask_segments(5)
post_step(2, 1000)
snapshot = Cuda.memory_snapshot(False)
print(answered()[0], len(files()))
print(sums() == (
    len(snapshot),
    sum(len(each["blocks"]) for each in snapshot),
    sum(each["total_size"] for each in snapshot),
    sum(each["allocated_size"] for each in snapshot),
), len(snapshot) > 10)
board.close()
print(files())
"""
    assert run(tmp_path / "board", body) == [
        "0 (0, 0)",  # no update yet
        "1 (0, 0) []",
        "5 1",
        "True True",
        "[]",
    ]


def test_listing_takes_a_hundredth_of_the_time_at_most(tmp_path: pathlib.Path) -> None:
    body = f"""{LISTING}
import time
from vram.monitoring import _segments
board = vram.Board()
taken = []
snapshot = Cuda.memory_snapshot
def slow(include_traces):
    began = time.perf_counter()
    time.sleep(0.003)
    found = snapshot(include_traces)
    taken.append(time.perf_counter() - began)
    return found
Cuda.memory_snapshot = staticmethod(slow)
began = time.perf_counter()
number = 0
while time.perf_counter() - began < 1.5:
    number = max(number, answered()[0] + 1)
    ask_segments(number)
    post_step(1, 1000)
print(1 <= len(taken), sum(taken[:-1]) <= 0.01 * (time.perf_counter() - began))
"""
    assert run(tmp_path / "board", body) == ["True True"]


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ("Cuda.capturing = True", 0),  # for a later step
        ("Cuda.memory_snapshot = staticmethod(lambda include_traces: 1 / 0)", 5),
        # An older PyTorch, which would copy the history.
        (
            "Cuda.memory_snapshot = staticmethod(lambda: 1 / 0); sys.modules['torch']._C = types.SimpleNamespace(_cuda_isHistoryEnabled=lambda: True)",
            5,
        ),
    ],
)
def test_a_list_that_cannot_be_made_disturbs_nothing(tmp_path: pathlib.Path, change: str, number: int) -> None:
    body = f"""{LISTING}
board = vram.Board()
{change}
ask_segments(5)
post_step(1, 1000)
print(answered(), files())
"""
    assert run(tmp_path / "board", body) == ["(0, 0) []" if number == 0 else "(5, 'failed') []"]


def test_an_older_pytorch_without_a_history_lists_its_segments(tmp_path: pathlib.Path) -> None:
    body = f"""{LISTING}
board = vram.Board()
snapshot = Cuda.memory_snapshot
Cuda.memory_snapshot = staticmethod(lambda: snapshot(False))
sys.modules["torch"]._C = types.SimpleNamespace(_cuda_isHistoryEnabled=lambda: False)
ask_segments(5)
post_step(1, 1000)
print(answered()[0], len(files()))
"""
    assert run(tmp_path / "board", body) == ["5 1"]


def test_programs_without_pytorch_say_that_they_list_nothing(tmp_path: pathlib.Path) -> None:
    body = f"""{LISTING}
del sys.modules["torch"]
board = vram.Board()
ask_segments(5)
post_step(1, 1000)
print(lists(), answered())
"""
    assert run(tmp_path / "board", body) == ["0 (0, 0)"]

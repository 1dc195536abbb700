"""A program with a vram.Board gives memory back on request through its status page: when, how much, and what it reports."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from asked_program import MIB, STAND_IN, UNKNOWN, environment
from program import BINARY

pytestmark = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

# In the program itself: sends a request, and reads the page.
ASKING = """
import os, pathlib, sys, threading
import vram
from vram.monitoring._board import post_step
sys.path.insert(0, "tests/python")
import asked_program
folder = pathlib.Path(os.environ["VRAM_BOARD"])
ask = lambda *request: asked_program.ask(folder, os.getpid(), *request)
answer = lambda: asked_program.answer(folder, os.getpid())
"""


def run(board: pathlib.Path, body: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ASKING + body],
        capture_output=True,
        text=True,
        check=False,
        env=environment(board),
        cwd=pathlib.Path(__file__).resolve().parents[2],
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_is_cached_comes_back_at_the_next_step(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
board = vram.Board()
ask(5)
print(answer())
post_step(1, 1000)
print(answer(), Cuda.reserved == Cuda.allocated)
Cuda.reserved = {{0: 100 << 20, 1: 50 << 20}}
post_step(2, 1000)
print(answer(), Cuda.reserved == Cuda.allocated)
ask(6, 1)
with vram.monitor("region"):
    pass
print(answer())
vram.add_sink(board)
with vram.monitor("region"):
    pass
print(answer())
"""
    assert run(tmp_path / "board", body) == [
        "(0, 0)",  # no update yet
        f"(5, {80 * MIB}) True",  # 40 MiB of one device, 40 of the other
        f"(5, {80 * MIB}) False",  # answered once
        f"(5, {80 * MIB})",  # the board is no sink yet
        f"(6, {40 * MIB})",  # of the device that was asked for
    ]


def test_the_page_says_at_once_what_is_left(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
import ctypes
from vram._library import library
from vram._prototypes import BoardPage
def cached():
    page = BoardPage(struct_bytes=ctypes.sizeof(BoardPage))
    assert library().vram_board_read(os.getpid(), ctypes.byref(page)) == 0
    return [device.cached_bytes >> 20 for device in page.devices[: page.device_count]]
board = vram.Board()
post_step(1, 1000)
print(cached())
ask(1)
post_step(2, 1000)
print(cached())
"""
    assert run(tmp_path / "board", body) == ["[40, 40]", "[0, 0]"]


def test_never_while_a_graph_is_captured_and_never_where_told_not_to(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
board = vram.Board()
ask(5)
Cuda.capturing = True
post_step(1, 1000)
print(answer(), Cuda.reserved == Cuda.allocated)
Cuda.capturing = False
post_step(2, 1000)
print(answer()[0], Cuda.reserved == Cuda.allocated)
board.close()
board = vram.Board(trims=False)
ask(6)
post_step(3, 1000)
print(answer()[0])
"""
    assert run(tmp_path / "board", body) == ["(0, 0) False", "5 True", "0"]


def test_a_framework_that_fails_does_not_disturb_the_program(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
board = vram.Board()
Cuda.broken = True
ask(5)
post_step(1, 1000)
print(answer())
"""
    assert run(tmp_path / "board", body) == [f"(5, {UNKNOWN})"]


def test_one_of_many_threads_gives(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
board = vram.Board()
emptied = []
empty = Cuda.empty_cache
Cuda.empty_cache = staticmethod(lambda: (emptied.append(1), empty()))
for number in range(1, 51):
    Cuda.reserved = {{0: 100 << 20, 1: 50 << 20}}
    ask(number)
    threads = [threading.Thread(target=post_step, args=(number, 1)) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert answer()[0] == number and Cuda.reserved == Cuda.allocated
print(len(emptied))
"""
    assert run(tmp_path / "board", body) == ["50"]


def test_a_fork_is_asked_on_its_own_page(tmp_path: pathlib.Path) -> None:
    body = f"""{STAND_IN}
board = vram.Board()
ask(5)
if (pid := os.fork()) == 0:
    post_step(1, 1000)
    os._exit(0 if answer() == (0, 0) and Cuda.reserved != Cuda.allocated else 1)
print(os.waitpid(pid, 0)[1], answer())
"""
    assert run(tmp_path / "board", body) == ["0 (0, 0)"]


@pytest.mark.parametrize("framework", ["", "import torch"])
def test_programs_without_a_gpu_have_nothing_to_give(tmp_path: pathlib.Path, framework: str) -> None:
    if framework:
        pytest.importorskip("torch")
    body = f"{framework}\nboard = vram.Board()\nask(5)\npost_step(1, 1000)\nprint(answer())"
    assert run(tmp_path / "board", body) == ["(5, 0)"]

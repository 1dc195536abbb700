"""`vram report` of a recording of vram's pool has the figures that the pool itself counts."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from program import BINARY
from test_library import output_of, run_in_c_types

Figures = dict[str, Any]

FAKE_DRIVER = pathlib.Path(BINARY).parents[1] / "tests" / "fake_cuda" / "libcuda.so.1"

pytestmark = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

PRELUDE = """
import json, random, threading
FOUR = [("current", ctypes.c_uint64), ("peak", ctypes.c_uint64), ("sum", ctypes.c_uint64), ("freed", ctypes.c_uint64)]
class Stat(ctypes.Structure): _fields_ = FOUR
class Stats(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t)]
    _fields_ += [(n, Stat) for n in ("allocation", "allocated", "active", "requested", "reserved")]
    _fields_ += [("rest", ctypes.c_uint64 * 11)]
class Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("backing", ctypes.c_int), ("reserved", ctypes.c_uint32),
                ("limit_bytes", ctypes.c_uint64), ("handle_bytes", ctypes.c_uint64)]
pool = ctypes.c_void_p()
options = Options(struct_bytes=ctypes.sizeof(Options), backing=BACKING, limit_bytes=0, handle_bytes=4 << 20)
assert vram.vram_pool_open(0, ctypes.byref(options), ctypes.byref(pool)) == 0, vram.vram_last_error()
def start(): assert vram.vram_record_start(PATH.encode(), None) == 0, vram.vram_last_error()
def alloc(size, stream=0):
    block = ctypes.c_void_p()
    if vram.vram_alloc(pool, ctypes.c_size_t(size), ctypes.c_void_p(stream), ctypes.byref(block)) != 0: return None
    return block.value
def free(block): assert vram.vram_free(pool, ctypes.c_void_p(block)) == 0
def use(block, stream): assert vram.vram_record_stream(pool, ctypes.c_void_p(block), ctypes.c_void_p(stream)) == 0
def finish():
    stats = Stats(struct_bytes=ctypes.sizeof(Stats))
    assert vram.vram_get_stats(pool, ctypes.byref(stats)) == 0
    assert vram.vram_record_stop() == 0, vram.vram_last_error()
    peaks = {n: getattr(stats, n).peak for n in ("allocated", "active", "requested", "reserved")}
    print(json.dumps({**peaks, "stitches": stats.rest[5]}))
"""

# A long program of blocks of every size on three streams; what is shared is awaited.
RANDOM = """
random.seed(SEED)
live, streams = [], [0, 8, 16]
for _ in range(6000):
    if random.random() < 0.52:
        size = 1 + random.randrange(1 << random.randrange(6, 25))
        block = alloc(size, random.choice(streams))
        if block is None: continue
        live.append(block)
        if random.random() < 0.1: use(block, random.choice(streams))
    elif live:
        free(live.pop(random.randrange(len(live))))
"""

# Each thread alone, in turn, then all at once: what lives when they are done is the peak.
THREADS = """
def work(n, lock=None):
    mine, rng = [], random.Random(n)
    for _ in range(800):
        if rng.random() < 0.5 or not mine: mine.append(alloc(1 + rng.randrange(1 << 16), 8 * n))
        else: free(mine.pop(rng.randrange(len(mine))))
    kept.extend(mine)
kept = []
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
kept.append(alloc(64 << 20))
"""


def recorded(tmp_path: pathlib.Path, body: str, backing: int = 1, seed: int = 0) -> tuple[Figures, Figures]:
    """The pool's own figures, and the report's device."""
    path = tmp_path / "run.vtrace"
    text = f"BACKING, PATH, SEED = {backing}, {str(path)!r}, {seed}\n{PRELUDE}{body}\nfinish()\n"
    done = run_in_c_types(text, VRAM_CUDA_DRIVER=str(FAKE_DRIVER))
    assert done.returncode == 0, done.stderr
    report = json.loads(output_of(BINARY, "report", path, "--json"))
    assert dict(report["settings"].items())["allocator"] == "vram"
    (device,) = report["devices"]
    return json.loads(done.stdout), device


def expect_same_peaks(stats: Figures, device: Figures) -> None:
    for name in ("allocated", "active", "requested", "reserved"):
        assert device["peak"][f"{name}_bytes"] == stats[name], name
    confidence = device["confidence"]
    assert confidence["word"] == "consistent", confidence
    assert confidence["before_recording_bytes"] == 0


@pytest.mark.parametrize("seed", range(4))
def test_peaks_are_the_pools(tmp_path: pathlib.Path, seed: int) -> None:
    stats, device = recorded(tmp_path, "start()\n" + RANDOM, seed=seed)
    assert stats["stitches"] > 0, "blocks that are mapped again are part of this test"
    expect_same_peaks(stats, device)


def test_peaks_of_a_pool_of_segments(tmp_path: pathlib.Path) -> None:
    expect_same_peaks(*recorded(tmp_path, "start()\n" + RANDOM, backing=2))


def test_a_recording_may_begin_late(tmp_path: pathlib.Path) -> None:
    body = RANDOM + "start()\nvram.vram_reset_peaks(pool)\n" + RANDOM.replace("live, streams = [],", "streams =")
    expect_same_peaks(*recorded(tmp_path, body, seed=5))


def test_threads_that_compete(tmp_path: pathlib.Path) -> None:
    expect_same_peaks(*recorded(tmp_path, "start()\n" + THREADS))


def test_ranks_know_what_their_devices_have_left(tmp_path: pathlib.Path) -> None:
    stats, _ = recorded(tmp_path, "start()\nalloc(5 << 20)")
    recording = (tmp_path / "run.vtrace").read_bytes()
    (tmp_path / "run.vtrace").unlink()
    for rank in (0, 1):
        (tmp_path / f"run.rank{rank}.vtrace").write_bytes(recording)
    compared = json.loads(output_of(BINARY, "report", tmp_path, "--json"))
    assert [line["rank"] for line in compared["ranks"]] == [0, 1]
    assert {line["headroom_bytes"] for line in compared["ranks"]} == {(1 << 30) - stats["reserved"]}
    assert compared["worst"] is None

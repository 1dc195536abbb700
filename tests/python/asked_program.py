"""Programs with a status page, for tests: Python children with a stand-in for PyTorch that counts cached bytes."""

from __future__ import annotations

import contextlib
import os
import pathlib
import struct
import subprocess
import sys
from collections.abc import Iterator

from program import BINARY, ROOT

REQUEST = 3072  # where a page has the request area: wanted, device, bytes, answered, answer_bytes
SEGMENTS_REQUEST = 3176  # and that of requests to list the segments
UNKNOWN = (1 << 64) - 1
MIB = 1 << 20

STAND_IN = """
import sys, types
class Cuda:
    reserved = {0: 100 << 20, 1: 50 << 20}
    allocated = {0: 60 << 20, 1: 10 << 20}
    capturing = False
    broken = False
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    is_current_stream_capturing = staticmethod(lambda: Cuda.capturing)
    @staticmethod
    def memory_stats(device):
        return {"reserved_bytes.all.current": Cuda.reserved[device], "allocated_bytes.all.current": Cuda.allocated[device]}
    @staticmethod
    def empty_cache():
        if Cuda.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        Cuda.reserved = dict(Cuda.allocated)
sys.modules["torch"] = types.SimpleNamespace(cuda=Cuda, _C=None)
"""

# And lists the segments of a real program: those at the end of a bundled recording.
SEGMENTS = f"""
import lzma, pickle
with lzma.open({str(ROOT / "demo" / "leak.stacks.pickle.xz")!r}) as recording:
    listed = pickle.load(recording)["segments"]
def memory_snapshot(include_traces):
    assert not include_traces
    return listed
Cuda.memory_snapshot = staticmethod(memory_snapshot)
"""


def environment(board: pathlib.Path) -> dict[str, str]:
    library = pathlib.Path(BINARY).with_name("libvram.so")
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "VRAM_LIBRARY": str(library),
        "VRAM_BOARD": str(board),
    }


@contextlib.contextmanager
def running(board: pathlib.Path, body: str) -> Iterator[subprocess.Popen[str]]:
    """A child that runs the lines, and has printed a first one: "ready"."""
    child = subprocess.Popen(
        [sys.executable, "-c", f"import os, time\nimport vram\n{body}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(board),
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=60)


def ask(board: pathlib.Path, pid: int, number: int, device: int = UNKNOWN) -> None:
    """A request, written by hand."""
    with (board / str(pid)).open("r+b") as page:
        page.seek(REQUEST)
        page.write(struct.pack("=3Q", number, device, UNKNOWN))


def answer(board: pathlib.Path, pid: int) -> tuple[int, int]:
    """Which request was answered, and with how many bytes."""
    with (board / str(pid)).open("rb") as page:
        page.seek(REQUEST)
        _, _, _, answered, given = struct.unpack("=5Q", page.read(40))
    return answered, given

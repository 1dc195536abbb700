"""The tap on a stand-in for PyTorch's own allocator with the real recorder: the file is complete and exact."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from program import BINARY, ROOT

sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "package")]

pytest.importorskip("torch", reason="the adapter is compiled against PyTorch's headers")
from built_once import built_once  # noqa: E402
from test_adapter import HEADER, SOURCES, compile_shared, installed  # noqa: E402

from vram.torch import _adapter  # noqa: E402

LIBRARY = pathlib.Path(BINARY).with_name("libvram.so")

pytestmark = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

MIB = 1 << 20


def build(folder: pathlib.Path) -> None:
    torch = installed()
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        shared = ("-shared", "-fPIC", f"-L{torch.lib}", f"-Wl,-rpath,{torch.lib},-soname,libc10_cuda.so")
        compile_shared(torch, folder / "libc10_cuda.so", *shared, SOURCES / "stand_in_cuda.cpp", "-lc10")
        _adapter.adapter(torch, HEADER, (folder,))[0].rename(folder / "adapter.so")


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the stand-in, and the adapter."""
    return built_once(tmp_path_factory, "tap", build)


def report(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the report of each device."""
    done = subprocess.run([BINARY, "report", "--json", path], capture_output=True, text=True, check=True, timeout=120)
    return list(json.loads(done.stdout)["devices"])


def test_the_figures_are_the_allocators_own(stand_in: pathlib.Path) -> None:
    torch = installed()
    found = [f"-L{stand_in}", f"-L{LIBRARY.parent}", f"-L{torch.lib}", "-Wl,--no-as-needed"]
    found.append(f"-Wl,-rpath,{stand_in}:{LIBRARY.parent}:{torch.lib}")
    source = SOURCES / "tap_recording.cpp"
    compile_shared(torch, stand_in / "record", source, *found, "-lc10_cuda", "-lvram", "-lc10", "-pthread")
    path = stand_in / "run.vtrace"
    subprocess.run([stand_in / "record", stand_in / "adapter.so", path], check=True, timeout=60)
    segments, expandable = report(path)
    for device in (segments, expandable):
        assert device["confidence"]["word"] == "exact", device["confidence"]
    compared = [device["confidence"]["detail"].split(" compared")[0] for device in (segments, expandable)]
    assert compared == ["2 segments and 6 blocks", "1 segment and 2 blocks"]
    assert segments["events"] == 2 + 3 + 1 + 1  # what was found, allocations, a segment, a free
    assert segments["peak"]["requested_bytes"] == 12 * MIB - 101 + 700
    assert segments["peak"]["allocated_bytes"] == 12 * MIB + 1024
    assert segments["peak"]["reserved_bytes"] == 22 * MIB
    assert expandable["peak"]["allocated_bytes"] == expandable["peak"]["reserved_bytes"] == 40 * MIB


PROGRAM = """\
import ctypes, sys

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stacks", ctypes.c_int), ("others", ctypes.c_uint32 * 3), ("limit", ctypes.c_uint64)]

vram, cuda, adapter = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in sys.argv[1:4]]
options = Options(ctypes.sizeof(Options), 1)
assert vram.vram_record_start(sys.argv[4].encode(), ctypes.byref(options)) == 0
assert adapter.vram_torch_tap(1) == 0

def planted():
    cuda.stand_in_allocate(ctypes.c_size_t(5000))

planted()
adapter.vram_torch_untap()
assert vram.vram_record_stop() == 0
"""


# A request by a thread without the GIL, under a lock that a thread with the GIL waits for.
UNDER_A_LOCK = """
#include <cstddef>
#include <mutex>
#include <unistd.h>
extern "C" void* stand_in_allocate(size_t bytes);
static std::mutex lock;
extern "C" void allocate_slowly(size_t bytes) {
  const std::lock_guard guard(lock);
  usleep(300000);
  stand_in_allocate(bytes);
}
extern "C" void wait_for_lock() { const std::lock_guard guard(lock); }
"""

WAITING_WITH_THE_GIL = PROGRAM.replace(
    "    cuda.stand_in_allocate(ctypes.c_size_t(5000))\n",
    """\
    import threading, time
    library, with_gil = ctypes.CDLL(sys.argv[5]), ctypes.PyDLL(sys.argv[5])
    thread = threading.Thread(target=library.allocate_slowly, args=[ctypes.c_size_t(5000)])
    thread.start()
    time.sleep(0.1)
    with_gil.wait_for_lock()
    thread.join()
""",
)


def test_a_thread_with_the_gil_may_wait_for_one_that_allocates(stand_in: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "lock.cpp").write_text(UNDER_A_LOCK)
    found = ["-shared", "-fPIC", f"-L{stand_in}", f"-Wl,-rpath,{stand_in}", "-lc10_cuda", "-pthread"]
    compile_shared(installed(), tmp_path / "lock.so", tmp_path / "lock.cpp", *found)
    words = [sys.executable, "-c", WAITING_WITH_THE_GIL, LIBRARY, stand_in / "libc10_cuda.so", stand_in / "adapter.so"]
    words += [tmp_path / "run.vtrace", tmp_path / "lock.so"]
    subprocess.run([str(word) for word in words], check=True, timeout=60)
    (device,) = report(tmp_path / "run.vtrace")
    (holder,) = device["holders"]
    assert holder["requested_bytes"] == 5000
    assert "adapter.so" in holder["name"]  # its native stack: Python's was not to be had


def test_a_request_has_its_place_in_python(stand_in: pathlib.Path) -> None:
    path = stand_in / "stacks.vtrace"
    words = [sys.executable, "-c", PROGRAM, LIBRARY, stand_in / "libc10_cuda.so", stand_in / "adapter.so", path]
    subprocess.run([str(word) for word in words], check=True, timeout=60)
    (device,) = report(path)
    (holder,) = device["holders"]
    assert holder["requested_bytes"] == 5000
    assert holder["name"] == "<string>:12 planted"

"""vram run --record of programs that are linked to the CUDA driver: each call is recorded once, however it is made; and
libvram_tap.so in the programs that it is preloaded into.

VRAM_BINARY names the program under test; the library and the fake driver are those of its build.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, ROOT, vram
from test_record import FAKE_DRIVER, LIBRARY, events_of

TAP = Path(BINARY).with_name("libvram_tap.so")
SOURCE = Path(__file__).with_name("linked_program.cpp")
MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram_tap.so"
)


def output_of(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module", params=["-pie", "-no-pie"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("linked") / "program"
    position = "-fPIE" if request.param == "-pie" else "-fno-pie"
    words = ("c++", "-std=c++17", position, request.param, SOURCE, "-o", target, FAKE_DRIVER, "-ldl")
    output_of(*words, f"-Wl,-rpath,{FAKE_DRIVER.parent}")
    return target


def recorded(tmp_path: Path, *command: object, **changes: str) -> list[dict[str, Any]]:
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--stacks", "native", "--", *command),
        VRAM_LIBRARY=str(LIBRARY),
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        **changes,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return events_of(tmp_path / "run.vtrace")


WHAT_IT_DOES = [
    ("segment_alloc", 5 * MIB + 512),
    ("alloc", 5 * MIB + 100),
    ("segment_alloc", 3 * MIB),
    ("alloc", 3 * MIB),
    ("free_completed", 3 * MIB),
    ("segment_free", 3 * MIB),
    ("oom", 1 << 40),
    ("segment_map", 4 * MIB),
    ("alloc", 4 * MIB),
    ("free_completed", 4 * MIB),
    ("segment_unmap", 4 * MIB),
]


@pytest.mark.parametrize("way", ["linked", "address", "default", "next", "program", "handle", "proc"])
def test_each_call_is_recorded_once(program: Path, tmp_path: Path, way: str) -> None:
    events = recorded(tmp_path, program, way)
    assert [(event["action"], event["size_bytes"]) for event in events] == WHAT_IT_DOES
    assert {event["device"] for event in events} == {1}
    assert not any("libvram" in frame for event in events for frame in event["stack"])


ANOTHER_TOOL = """
#include <dlfcn.h>
#include <cstddef>
extern "C" int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  void* own = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
  return reinterpret_cast<int (*)(unsigned long long*, size_t)>(own)(address, bytes);
}
"""


def test_once_where_another_preloaded_library_stands_between(program: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "tool.cpp", tmp_path / "tool.so"
    source.write_text(ANOTHER_TOOL)
    output_of("c++", "-shared", "-fPIC", source, "-o", library, "-ldl")
    events = recorded(tmp_path, program, "linked", LD_PRELOAD=str(library))
    assert [(event["action"], event["size_bytes"]) for event in events] == WHAT_IT_DOES


# Like an extension module that is linked to the driver: only the module itself sees the driver.
def test_a_library_that_is_linked_and_loaded_later(tmp_path: Path) -> None:
    source, library = tmp_path / "extension.cpp", tmp_path / "extension.so"
    source.write_text(
        'extern "C" int cuInit(unsigned); extern "C" int cuDevicePrimaryCtxRetain(void**, int);'
        'extern "C" int cuCtxPushCurrent_v2(void*); extern "C" int cuMemAlloc_v2(unsigned long long*, unsigned long);'
        'extern "C" int work() { void* context; unsigned long long address; return cuInit(0) +'
        "  cuDevicePrimaryCtxRetain(&context, 1) + cuCtxPushCurrent_v2(context) + cuMemAlloc_v2(&address, 7 << 20); }"
    )
    output_of("c++", "-shared", "-fPIC", source, "-o", library, FAKE_DRIVER, f"-Wl,-rpath,{FAKE_DRIVER.parent}")
    code = f"import ctypes; assert ctypes.CDLL({str(library)!r}).work() == 0"
    events = recorded(tmp_path, sys.executable, "-c", code)
    assert [(event["action"], event["size_bytes"]) for event in events] == [
        ("segment_alloc", 7 * MIB),
        ("alloc", 7 * MIB),
    ]


def test_a_program_without_a_driver_finds_none() -> None:
    code = (
        "import ctypes\n"
        "print(hasattr(ctypes.CDLL(None), 'cuMemAlloc_v2'), hasattr(ctypes.CDLL(None), 'dlsym'))\n"
        "print([name for name in ('libcuda', 'libvram.so') if name in open('/proc/self/maps').read()])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"LD_PRELOAD": str(TAP)},
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("False True\n[]\n", "")


def test_it_shows_what_it_watches_and_nothing_else() -> None:
    shown = {line.split()[-1].split("@")[0] for line in output_of("nm", "-D", "--defined-only", TAP).splitlines()}
    watched = set(re.findall(r'call_of<&\w+, &\w+>\(\s*"(\w+)"', (ROOT / "src/tap/calls.cpp").read_text()))
    assert len(watched) == 25
    assert shown == {"dlsym", *watched}


def test_it_needs_nothing_but_the_c_library() -> None:
    assert re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", TAP)) == ["libc.so.6"]

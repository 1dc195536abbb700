"""vram run --record of programs that use the driver in unusual ways: from other contexts, old versions, with other tools.

VRAM_BINARY names the program under test; the library is that of its build, the driver is versioned_driver.cpp.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import BINARY, ROOT, vram
from test_record import LIBRARY, events_of

FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "tapped_driver.py"
MIB = 1 << 20

Seen = tuple[int, str, int]  # the device, what it is, and how many MiB

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram_tap.so"
)


def compiled(source: Path, target: Path, *words: object) -> Path:
    command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", source, "-o", target, *words]
    subprocess.run([str(word) for word in command], check=True, timeout=120)
    return target


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    return compiled(FOLDER / "versioned_driver.cpp", folder / "libcuda.so.1", "-Wl,-Bsymbolic")


def run(tmp_path: Path, driver: Path, *command: object, stacks: str = "native", **changes: str) -> None:
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--stacks", stacks, "--", *command),
        VRAM_LIBRARY=str(LIBRARY),
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        LD_LIBRARY_PATH=str(driver.parent),
        **changes,
    )
    assert (done.returncode, done.stderr) == (0, "")


def recorded(tmp_path: Path, driver: Path, *words: str, **changes: str) -> list[Seen]:
    run(tmp_path, driver, sys.executable, PROGRAM, *words, **changes)
    events: list[dict[str, Any]] = events_of(tmp_path / "run.vtrace")
    return [(event["device"], event["action"], event["size_bytes"] // MIB) for event in events]


def block(device: int, size: int) -> list[Seen]:
    return [(device, "segment_alloc", size), (device, "alloc", size)]


def free(device: int, size: int) -> list[Seen]:
    return [(device, "free_completed", size), (device, "segment_free", size)]


def mapping(device: int) -> list[Seen]:
    return [(device, "segment_map", 2), (device, "alloc", 2)]


def unmapping(device: int) -> list[Seen]:
    return [(device, "free_completed", 2), (device, "segment_unmap", 2)]


def by_device(events: list[Seen]) -> list[Seen]:
    """A file has the events of each device in their order."""
    return sorted(events, key=lambda event: event[0])


def test_a_free_counts_for_the_device_of_its_block(tmp_path: Path, driver: Path) -> None:
    events = recorded(tmp_path, driver, "frees_from_another_context")
    assert events == [*block(0, 1), *block(0, 2), *free(0, 1), *free(0, 2)]


def test_a_block_counts_for_the_device_of_its_stream_or_pool_if_that_is_a_gpu(tmp_path: Path, driver: Path) -> None:
    events = recorded(tmp_path, driver, "streams_and_pools_of_other_devices")
    assert events == [*block(1, 1), *free(1, 1), *block(1, 2), *free(1, 2), (1, "oom", MIB)]


def test_a_mapping_counts_for_the_device_of_its_handle_if_that_is_a_gpu(tmp_path: Path, driver: Path) -> None:
    assert recorded(tmp_path, driver, "mappings_of_handles") == [*mapping(1), *unmapping(1)]


def test_one_unmap_takes_back_all_mappings_of_its_range(tmp_path: Path, driver: Path) -> None:
    events = by_device(recorded(tmp_path, driver, "one_unmap_of_several_mappings"))
    assert events == [*mapping(0), *mapping(0), *unmapping(0), *unmapping(0), *mapping(1), *unmapping(1)]


def test_memory_that_is_mapped_at_several_addresses_is_counted_once(tmp_path: Path, driver: Path) -> None:
    run(tmp_path, driver, sys.executable, PROGRAM, "a_handle_at_several_addresses")
    events = [(event["action"], int(event["address"], 0) >> 40) for event in events_of(tmp_path / "run.vtrace")]
    mapped, unmapped = ("segment_map", "alloc"), ("free_completed", "segment_unmap")
    # At the second address from the moment on that the first one ends.
    expected = [(action, 1) for action in (*mapped, *unmapped)] + [(action, 2) for action in (*mapped, *unmapped)]
    assert events == expected


def test_a_new_handle_with_the_number_of_a_former_one_is_other_memory(tmp_path: Path, driver: Path) -> None:
    events = recorded(tmp_path, driver, "a_handle_whose_number_is_used_again")
    assert events == [*mapping(0), *mapping(0), *unmapping(0), *mapping(0), *unmapping(0), *unmapping(0)]


def test_memory_whose_release_fails_is_still_there(tmp_path: Path, driver: Path) -> None:
    events = recorded(tmp_path, driver, "releases_that_fail")
    assert events == [*block(0, 1), *mapping(0), *free(0, 1), *block(0, 1), *free(0, 1)]


def test_each_of_many_blocks_is_freed_as_it_was_allocated(tmp_path: Path, driver: Path) -> None:
    run(tmp_path, driver, sys.executable, PROGRAM, "many_blocks")
    live: dict[str, tuple[int, int]] = {}
    counts = {0: 0, 1: 0}
    for event in events_of(tmp_path / "run.vtrace"):
        block = (event["device"], event["size_bytes"])
        if event["action"] == "alloc":
            live[event["address"]] = block
            counts[event["device"]] += 1
        elif event["action"] == "free_completed":
            assert live.pop(event["address"]) == block
    assert counts == {0: 10_000, 1: 10_000}
    assert not live


@pytest.mark.parametrize("order", ["11080,12000", "12000,11080", "13000,11040,12020"])
@pytest.mark.parametrize("first", ["cuGetProcAddress", "cuGetProcAddress_v2"])
def test_each_version_of_the_look_up_stays_its_own(tmp_path: Path, driver: Path, first: str, order: str) -> None:
    events = recorded(tmp_path, driver, "versions_of_the_look_up", first, order)
    rounds = 2 * len(order.split(",")) + 1
    assert events == block(1, 1) * rounds  # and none of the forms of before 3.2 and after 13


LINKED_PROGRAM = """
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
extern "C" int cuCtxSetCurrent(void*);
extern "C" int cuMemAlloc_v2(uint64_t* address, size_t bytes);
using Alloc = int (*)(uint64_t*, size_t);
int main() {
  uint64_t address = 0;
  if (cuCtxSetCurrent(reinterpret_cast<void*>(2)) != 0) return 1;
  for (size_t i = 1; i <= 3; ++i)
    if (cuMemAlloc_v2(&address, i << 20) != 0) return 2;
  void* const found = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
  for (size_t i = 4; i <= 5; ++i)
    if (reinterpret_cast<Alloc>(found)(&address, i << 20) != 0) return 3;
  return cuMemAlloc_v2(&address, 6 << 20);
}
"""

# Stands between the programs and the driver, and says at the end how many calls went through it.
COUNTING_TOOL = """
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
using Alloc = int (*)(uint64_t*, size_t);
static int count = 0;
static Alloc own = nullptr;
%s
extern "C" int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  ++count;
  if (own == nullptr) own = reinterpret_cast<Alloc>(%s);
  return own(address, bytes);
}
__attribute__((destructor)) static void say() { if (count != 0) std::printf("%%d calls\\n", count); }
"""

DLSYM_HOOK = """
using Dlsym = void* (*)(void*, const char*);
extern "C" int cuMemAlloc_v2(uint64_t* address, size_t bytes);
static Dlsym real() {
  void* found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  return reinterpret_cast<Dlsym>(found != nullptr ? found : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.17"));
}
static void* drivers(const char* name) { return real()(dlopen("libcuda.so.1", RTLD_NOW), name); }
extern "C" void* dlsym(void* handle, const char* name) {
  if (std::strcmp(name, "cuMemAlloc_v2") == 0) return reinterpret_cast<void*>(&cuMemAlloc_v2);
  void* const found = real()(handle, name);
  asm volatile("");
  return found;
}
"""

# Where the tool has the driver's function from.
WAYS = {
    "handle": ("", 'dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2")'),
    "next": ("", 'dlsym(RTLD_NEXT, "cuMemAlloc_v2")'),
    "hook": (DLSYM_HOOK, 'drivers("cuMemAlloc_v2")'),
}


@pytest.mark.parametrize(("caller", "way"), [*(("linked", way) for way in WAYS), ("looked up", "hook")])
def test_another_tool_sees_every_call(tmp_path: Path, driver: Path, caller: str, way: str) -> None:
    (tmp_path / "tool.cpp").write_text(COUNTING_TOOL % WAYS[way])
    tool = compiled(tmp_path / "tool.cpp", tmp_path / "tool.so", "-ldl", "-fno-builtin")
    command: list[object]
    if caller == "linked":
        (tmp_path / "program.cpp").write_text(LINKED_PROGRAM)
        words = ["c++", "-std=c++17", tmp_path / "program.cpp", "-o", tmp_path / "program", driver, "-ldl"]
        subprocess.run([*map(str, words), f"-Wl,-rpath,{driver.parent}"], check=True, timeout=120)
        command, calls = [tmp_path / "program"], 6
    else:
        command, calls = [sys.executable, PROGRAM, "plain_calls"], 4
    done = vram(
        *("run", "--record", tmp_path / "run.vtrace", "--stacks", "native", "--", *command),
        VRAM_LIBRARY=str(LIBRARY),
        VRAM_STARTUP=str(ROOT / "python" / "vram" / "_startup"),
        LD_LIBRARY_PATH=str(driver.parent),
        LD_PRELOAD=str(tool),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{calls} calls\n", "")
    sizes = [event["size_bytes"] // MIB for event in events_of(tmp_path / "run.vtrace") if event["action"] == "alloc"]
    assert sizes == list(range(1, calls + 1))


# An allocator in C++, called by Python: with the GIL or without, and always with its own lock.
ALLOCATOR = """
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unistd.h>
extern "C" int cuMemAlloc_v2(uint64_t* address, size_t bytes);
extern "C" int cuMemFree_v2(uint64_t address);
static std::mutex lock;
extern "C" int slow_allocate(uint64_t* address, size_t bytes) {
  const std::lock_guard guard(lock);
  usleep(300000);
  return cuMemAlloc_v2(address, bytes);
}
extern "C" int deallocate(uint64_t address) {
  const std::lock_guard guard(lock);
  return cuMemFree_v2(address);
}
extern "C" int allocate_with_error(uint64_t* address, size_t bytes, void (*set)(void*, const char*), void* type) {
  set(type, "still set");
  return cuMemAlloc_v2(address, bytes);
}
"""


@pytest.fixture(scope="module")
def allocator(driver: Path) -> Path:
    source = driver.with_name("allocator.cpp")
    source.write_text(ALLOCATOR)
    return compiled(source, driver.with_name("allocator.so"), driver, "-pthread", f"-Wl,-rpath,{driver.parent}")


def stacks_of(tmp_path: Path, driver: Path, *words: object) -> list[str]:
    run(tmp_path, driver, sys.executable, PROGRAM, *words, stacks="python")
    return [" | ".join(event["stack"]) for event in events_of(tmp_path / "run.vtrace") if event["action"] == "alloc"]


def test_a_thread_with_the_gil_may_wait_for_an_allocator(tmp_path: Path, driver: Path, allocator: Path) -> None:
    first, late, last = stacks_of(tmp_path, driver, "frees_while_another_allocates", allocator)
    assert "tapped_driver.py" in first
    assert "slow_allocate" in late  # its native stack: Python's was not to be had
    assert "tapped_driver.py" in last


def test_stacks_of_threads_that_have_released_the_gil(tmp_path: Path, driver: Path) -> None:
    stacks = stacks_of(tmp_path, driver, "threads_that_allocate")
    assert len(stacks) == 400
    in_python = sum(" allocates_often" in stack for stack in stacks)
    assert in_python >= 100, f"{in_python} of 400 stacks are Python's"


def test_a_child_of_a_fork_takes_stacks_by_a_thread_of_its_own(tmp_path: Path, driver: Path) -> None:
    run(tmp_path, driver, sys.executable, PROGRAM, "a_child_of_a_fork", stacks="python")
    files = sorted(tmp_path.glob("run*.vtrace"))  # either may have the name without a number
    assert len(files) == 2
    allocations = [event for file in files for event in events_of(file) if event["action"] == "alloc"]
    assert sorted(event["size_bytes"] for event in allocations) == [MIB, 2 * MIB]
    for event in allocations:
        assert any("a_child_of_a_fork" in frame for frame in event["stack"]), event["stack"]


def test_names_that_are_no_valid_text_set_no_exception(tmp_path: Path, driver: Path) -> None:
    (stack,) = stacks_of(tmp_path, driver, "a_file_with_an_odd_name")
    assert "odd\\udcff.py:1 <module>" in stack


def test_an_exception_that_is_set_stays_set(tmp_path: Path, driver: Path, allocator: Path) -> None:
    (stack,) = stacks_of(tmp_path, driver, "an_exception_that_is_set", allocator)
    assert "an_exception_that_is_set" in stack

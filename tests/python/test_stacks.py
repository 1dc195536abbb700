"""Stacks of libvram.so in programs that fork, and in consecutive recordings of different kinds.

VRAM_BINARY names the program under test; the library is the one next to it.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from program import BINARY, ROOT, environment
from test_record import LIBRARY, events_of, python

pytestmark = pytest.mark.skipif(
    Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)

TWO_RECORDINGS = """
import ctypes, sys

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("stacks", ctypes.c_int), ("others", ctypes.c_uint32 * 3), ("limit", ctypes.c_uint64)]

class Event(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int), ("address", ctypes.c_uint64), ("size", ctypes.c_uint64),
                ("stream", ctypes.c_void_p), ("stack", ctypes.c_uint32)]

vram = ctypes.CDLL(sys.argv[1])
kinds = {"python": 1, "native": 2}
def start(path, kind):
    assert vram.vram_record_start(path.encode(), ctypes.byref(Options(ctypes.sizeof(Options), kinds[kind]))) == 0
start(sys.argv[2] + "/first.vtrace", sys.argv[3])
def captures():
    return vram.vram_capture_stack()
early = captures()
assert early != 0
assert vram.vram_record_stop() == 0
start(sys.argv[2] + "/second.vtrace", sys.argv[4])
vram.vram_record_event(ctypes.byref(Event(0, 0, 4096, 512, None, early)))
vram.vram_record_event(ctypes.byref(Event(0, 0, 8192, 512, None, captures())))
assert vram.vram_record_stop() == 0
"""


@pytest.mark.parametrize(("first", "second"), [("python", "native"), ("native", "python")])
def test_a_stack_may_outlast_its_recording(tmp_path: Path, first: str, second: str) -> None:
    words = [sys.executable, "-c", TWO_RECORDINGS, LIBRARY, tmp_path, first, second]
    subprocess.run([str(word) for word in words], check=True, timeout=60, env=environment())
    stacks = dict(
        zip((first, second), (event["stack"] for event in events_of(tmp_path / "second.vtrace")), strict=True)
    )
    assert "<string>:17 captures" in stacks["python"]
    assert any("libffi" in frame for frame in stacks["native"])


# Threads take native stacks while the process forks; each child takes one, too.
FORKING_PROGRAM = """
#include <atomic>
#include <cstdio>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <vram/record.h>

int main(int, char** arguments) {
  vram_record_options options{};
  options.struct_bytes = sizeof options;
  options.stacks = VRAM_STACKS_NATIVE;
  options.is_lazy = 1;
  if (vram_record_start(arguments[1], &options) != VRAM_OK) return 1;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] { while (!is_over) (void)vram_capture_stack(); });
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(vram_capture_stack() != 0 ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::fprintf(stderr, "child %d ended with status %d\\n", i, status);
      _exit(2);
    }
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
}
"""


def test_children_of_forks_take_stacks(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(FORKING_PROGRAM)
    words = ["c++", "-std=c++17", f"-I{ROOT / 'include'}", tmp_path / "program.cpp", "-o", tmp_path / "program"]
    words += [f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}", "-lvram", "-pthread"]
    subprocess.run([str(word) for word in words], check=True, timeout=120)
    command = [str(tmp_path / "program"), str(tmp_path / "run.vtrace")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


# Looking for Python's functions takes a thread as long as the program says: it forks meanwhile, and the child takes a stack.
SLOW_LOOK_UP = """
#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vram/record.h>

static std::atomic<bool> is_slow{false}, is_looking{false}, has_forked{false}, has_stack{false};

extern "C" void* dlsym(void* library, const char* name) {
  static const auto next = reinterpret_cast<void* (*)(void*, const char*)>(dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION));
  if (is_slow && std::strncmp(name, "Py", 2) == 0) {
    is_looking = true;
    while (!has_forked) usleep(1000);
  }
  return next(library, name);
}

int main(int, char** arguments) {
  vram_record_options options{};
  options.struct_bytes = sizeof options;
  options.stacks = VRAM_STACKS_PYTHON;
  options.is_lazy = 1;
  if (vram_record_start(arguments[1], &options) != VRAM_OK) return 1;
  is_slow = true;
  std::thread other([] { (void)vram_capture_stack(); has_stack = true; });
  while (!is_looking && !has_stack) usleep(1000);
  const pid_t child = fork();
  has_forked = true;
  if (child == 0) {
    alarm(10);
    (void)vram_capture_stack();
    _exit(0);
  }
  int status = 0;
  (void)waitpid(child, &status, 0);
  other.join();
  if (status != 0) std::fprintf(stderr, "the child ended with status %d\\n", status);
}
"""


def test_a_child_takes_stacks_though_its_parent_was_looking_for_python(tmp_path: Path) -> None:
    (tmp_path / "program.cpp").write_text(SLOW_LOOK_UP)
    version = "GLIBC_2.17" if platform.machine() == "aarch64" else "GLIBC_2.2.5"
    words = ["c++", "-std=c++17", "-rdynamic", f'-DDLSYM_VERSION="{version}"', f"-I{ROOT / 'include'}"]
    words += [str(tmp_path / "program.cpp"), "-o", str(tmp_path / "program"), f"-L{LIBRARY.parent}"]
    words += [f"-Wl,-rpath,{LIBRARY.parent}", "-lvram", "-pthread", "-ldl"]
    subprocess.run(words, check=True, timeout=120)
    command = [str(tmp_path / "program"), str(tmp_path / "run.vtrace")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


# C++ threads that have run Python once, and take stacks for as long as the process lives. None may be ended in the middle.
RECORDING_THREADS = """
#include <dlfcn.h>
#include <thread>
#include <vram/record.h>

static void work() noexcept {
  for (;;) (void)vram_capture_stack();
}
template <class Function>
static Function python(const char* name) { return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name)); }

extern "C" void begin() {
  for (int i = 0; i < 4; ++i) {
    std::thread([] {
      (void)python<int (*)()>("PyGILState_Ensure")();
      (void)python<void* (*)()>("PyEval_SaveThread")();
      work();
    }).detach();
  }
}
"""

ENDING_PROGRAM = """
import atexit, ctypes, sys, time
atexit.register(ctypes.PyDLL(None).usleep, 300_000)  # runs last, with the GIL
import vram
vram.record(sys.argv[1], stacks="python")
ctypes.CDLL(sys.argv[2]).begin()
time.sleep(0.2)
"""


def test_python_may_end_while_threads_take_stacks(tmp_path: Path) -> None:
    (tmp_path / "threads.cpp").write_text(RECORDING_THREADS)
    words = ["c++", "-std=c++17", "-shared", "-fPIC", f"-I{ROOT / 'include'}", tmp_path / "threads.cpp"]
    words += ["-o", tmp_path / "threads.so", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread", "-ldl"]
    subprocess.run([str(word) for word in words], check=True, timeout=120)
    done = python("-c", ENDING_PROGRAM, tmp_path / "run.vtrace", tmp_path / "threads.so")
    assert (done.returncode, done.stderr) == (0, "")


# A request by a thread without the GIL, under a lock that a thread with the GIL waits for.
REQUEST_UNDER_A_LOCK = """
#include <mutex>
#include <unistd.h>
#include <vram/vram.h>

static std::mutex lock;
extern "C" void allocate_slowly() {
  const std::lock_guard guard(lock);
  usleep(300000);
  vram_pool* pool = nullptr;
  void* block = nullptr;
  if (vram_pool_open(0, nullptr, &pool) == VRAM_OK) (void)vram_alloc(pool, 5000, nullptr, &block);
}
extern "C" void wait_for_lock() { const std::lock_guard guard(lock); }
"""

WAITING_PROGRAM = """
import ctypes, sys, threading, time
import vram
library, with_gil = ctypes.CDLL(sys.argv[2]), ctypes.PyDLL(sys.argv[2])
with vram.record(sys.argv[1], stacks="python"):
    thread = threading.Thread(target=library.allocate_slowly)
    thread.start()
    time.sleep(0.1)
    with_gil.wait_for_lock()
    thread.join()
"""


def test_a_thread_with_the_gil_may_wait_for_one_that_allocates(tmp_path: Path) -> None:
    (tmp_path / "lock.cpp").write_text(REQUEST_UNDER_A_LOCK)
    words = ["c++", "-std=c++17", "-shared", "-fPIC", f"-I{ROOT / 'include'}", tmp_path / "lock.cpp"]
    words += ["-o", tmp_path / "lock.so", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-pthread"]
    subprocess.run([str(word) for word in words], check=True, timeout=120)
    done = python("-c", WAITING_PROGRAM, tmp_path / "run.vtrace", tmp_path / "lock.so")
    assert (done.returncode, done.stderr) == (0, "")
    blocks = [event for event in events_of(tmp_path / "run.vtrace") if event["action"] == "alloc"]
    assert [event["size_bytes"] for event in blocks] == [5000]

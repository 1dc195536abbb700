"""libvram.so and libvram_report.so for their users: dependencies, exported symbols, and how libvram.so opens the driver."""

import ctypes.util
import os
import pathlib
import re
import subprocess
import sys

import pytest
from program import BINARY, ROOT

LIBRARY = pathlib.Path(BINARY).with_name("libvram.so")
# The libraries, with the macro before the functions that each exports.
LIBRARIES = {LIBRARY: "VRAM_API", LIBRARY.with_name("libvram_report.so"): "VRAM_REPORT_API"}
FAKE_DRIVER = pathlib.Path(BINARY).parents[1] / "tests" / "fake_cuda"

# Their run-time libraries would be in it; the modules' own tests cover the same code there.
pytestmark = pytest.mark.skipif(
    pathlib.Path(BINARY).parents[1].name in {"asan", "tsan"}, reason="builds with sanitizers have no libvram.so"
)


def output_of(*words: object) -> str:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, timeout=120).stdout


def functions_of_the_headers(macro: str) -> set[str]:
    text = "".join(header.read_text() for header in sorted((ROOT / "include/vram").glob("*.h")))
    return set(re.findall(rf"^{macro} [^;(]*?\b(vram_\w+)\(", text, re.MULTILINE))


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_it_shows_what_the_headers_declare_and_nothing_else(library: pathlib.Path) -> None:
    shown = {line.split()[-1].split("@")[0] for line in output_of("nm", "-D", "--defined-only", library).splitlines()}
    assert functions_of_the_headers(LIBRARIES[library]) == shown


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda path: path.name)
def test_it_needs_nothing_but_the_c_library(library: pathlib.Path) -> None:
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", library)))
    assert "libc.so.6" in needed
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def run_in_c_types(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, with the library in it as `vram`."""
    text = (
        f"import ctypes\nvram = ctypes.CDLL({str(LIBRARY)!r})\nvram.vram_last_error.restype = ctypes.c_char_p\n{body}"
    )
    changed = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, env=changed, timeout=120
    )


def test_loading_it_opens_no_driver() -> None:
    done = run_in_c_types("print('libcuda' in open('/proc/self/maps').read())", LD_LIBRARY_PATH=str(FAKE_DRIVER))
    assert done.stdout == "False\n", done.stderr


def test_it_opens_the_driver_that_the_loader_finds() -> None:
    body = """
pool, block = ctypes.c_void_p(), ctypes.c_void_p()
assert vram.vram_pool_open(0, None, ctypes.byref(pool)) == 0, vram.vram_last_error()
assert vram.vram_alloc(pool, ctypes.c_size_t(5 << 20), None, ctypes.byref(block)) == 0
ctypes.memset(block, 1, 5 << 20)
assert vram.vram_free(pool, block) == 0
assert vram.vram_pool_close(pool) == 0
"""
    done = run_in_c_types(body, LD_LIBRARY_PATH=str(FAKE_DRIVER))
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def test_without_a_driver_it_says_so() -> None:
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a driver")
    body = "pool = ctypes.c_void_p()\nprint(vram.vram_pool_open(0, None, ctypes.byref(pool)))\nprint(vram.vram_last_error().decode())"
    status, text = run_in_c_types(body, LD_LIBRARY_PATH="").stdout.splitlines()
    assert status == "4"
    assert "libcuda.so.1" in text


GUEST = """
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int count, char** words) {
  void* vram = dlopen(words[1], RTLD_NOW);
  if (count != 3 || vram == NULL) return 1;
  int (*start)(const char*, const void*) = (int (*)(const char*, const void*))dlsym(vram, "vram_record_start");
  void (*step)(void) = (void (*)(void))dlsym(vram, "vram_step");
  if (start == NULL || step == NULL || start(words[2], NULL) != 0) return 2;
  step();
%s
}
"""


def run_guest(folder: pathlib.Path, body: str, *before: str) -> "subprocess.CompletedProcess[str]":
    """A C program that records, and then does that; `before` is a command that executes it."""
    source, program = folder / "guest.c", folder / "guest"
    source.write_text(GUEST % body)
    subprocess.run(["cc", source, "-o", program, "-ldl"], check=True, timeout=120)
    words: list[str | pathlib.Path] = [*before, program, LIBRARY, folder / "run.vtrace"]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)


def test_it_may_be_closed_while_it_records(tmp_path: pathlib.Path) -> None:
    """Its thread and what it does at the end of the process go on: the library stays."""
    body = """
  if (dlclose(vram) != 0) return 3;
  struct timespec time = {0, 300000000};
  nanosleep(&time, NULL);
  step();
  return 0;"""
    assert run_guest(tmp_path, body).returncode == 0


def test_a_program_that_waits_for_signals_gets_them(tmp_path: pathlib.Path) -> None:
    """As one that checkpoints on Slurm's --signal: a thread that did not block them would end the process."""
    body = """
  sigset_t wanted;
  int got = 0;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR1);
  if (sigprocmask(SIG_BLOCK, &wanted, NULL) != 0 || kill(getpid(), SIGUSR1) != 0) return 3;
  return sigwait(&wanted, &got) == 0 && got == SIGUSR1 ? 0 : 4;"""
    assert run_guest(tmp_path, body).returncode == 0


def test_what_a_daemon_prints_is_not_in_its_recording(tmp_path: pathlib.Path) -> None:
    """Without standard files, the next file that is opened gets the number of one of them."""
    body = """
  write(0, "printed", 7);
  write(1, "printed", 7);
  write(2, "printed", 7);
  return 0;"""
    assert run_guest(tmp_path, body, "sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-').returncode == 0
    recording = (tmp_path / "run.vtrace").read_bytes()
    assert recording != b""
    assert b"printed" not in recording

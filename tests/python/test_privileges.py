"""A program with more rights than its caller loads no library and writes no file named in the caller's environment.

Such a program has the set-user-ID bit here; for one with file capabilities, the kernel informs the C library in the
same way (AT_SECURE). VRAM_BINARY names the program under test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import BINARY, IS_SANITIZED, ROOT, environment

NOBODY = 65534
LIBRARY = Path(BINARY).with_name("libvram.so")

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a program to another user"),
    pytest.mark.skipif(IS_SANITIZED, reason="run-time libraries of sanitizers read the environment, too"),
]

# Says that it was loaded, by a file that everybody may make.
CALLERS_LIBRARY = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) { close(open(LOADED, O_WRONLY | O_CREAT, 0666)); }
"""
RECORDS = """
#include <vram/record.h>
#include <stdio.h>
int main(void) {
  if (vram_record_start_as_told() != VRAM_OK) puts(vram_last_error());
  printf("%d\\n", vram_is_recording());
  vram_pool* pool;
  (void)vram_pool_open(0, NULL, &pool);
  return 0;
}
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other users may read and write; those of pytest are the user's alone."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


def compile_c(output: Path, text: str, *words: object) -> Path:
    source = output.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["cc", source, *map(str, words), "-o", output], check=True, timeout=120)
    return output


def with_more_rights(program: Path) -> Path:
    """A copy of the program that runs as another user."""
    copy = program.with_name(program.name + "-suid")
    shutil.copy(program, copy)
    os.chown(copy, NOBODY, NOBODY)
    copy.chmod(0o4755)
    return copy


def callers_library(folder: Path) -> Path:
    return compile_c(folder / "callers.so", CALLERS_LIBRARY, "-shared", "-fPIC", f'-DLOADED="{folder / "loaded"}"')


@pytest.mark.parametrize(
    ("variable", "words"), [("VRAM_NVML", ["status", "--gpu", "nvml"]), ("VRAM_CUDA_DRIVER", ["doctor"])]
)
def test_the_program_loads_no_library_of_the_callers(folder: Path, variable: str, words: list[str]) -> None:
    program = folder / "vram"
    shutil.copy(BINARY, program)
    named = {variable: str(callers_library(folder))}
    for one, loads in ((program, True), (with_more_rights(program), False)):
        subprocess.run([one, *words], capture_output=True, check=False, timeout=60, env=environment(**named))
        assert (folder / "loaded").exists() == loads, one
        (folder / "loaded").unlink(missing_ok=True)


def test_the_library_loads_and_writes_nothing_of_the_callers(folder: Path) -> None:
    shutil.copy(LIBRARY, folder / "libvram.so")
    words = (f"-I{ROOT / 'include'}", f"-L{folder}", "-lvram", f"-Wl,-rpath,{folder}")
    program = compile_c(folder / "records", RECORDS, *words)
    named = {"VRAM_CUDA_DRIVER": str(callers_library(folder)), "VRAM_RECORD": str(folder / "run.vtrace")}
    for one, trusts in ((program, True), (with_more_rights(program), False)):
        done = subprocess.run([one], capture_output=True, text=True, check=True, timeout=60, env=environment(**named))
        assert done.stdout == f"{int(trusts)}\n", one
        assert (folder / "loaded").exists() == trusts, one
        (folder / "loaded").unlink(missing_ok=True)

"""The binaries are hardened: stack protectors and checked calls of the C library, random addresses, and address tables
that are read-only while the program runs.
"""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import pytest
from program import BINARY, IS_SANITIZED

pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="builds with sanitizers have checks of their own")

SHIPPED = [Path(BINARY), *(Path(BINARY).with_name(f"libvram{name}.so") for name in ("", "_report", "_tap"))]
CHECKS_STACKS = "__stack_chk_fail"


def readelf(*words: object) -> str:
    return subprocess.run(
        ["readelf", "-W", *map(str, words)], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def imported(file: Path) -> set[str]:
    columns = [line.split() for line in readelf("--dyn-syms", file).splitlines() if " UND " in line]
    return {words[7].split("@")[0] for words in columns if len(words) > 7}  # the first has no name


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_its_tables_are_bound_at_the_start_and_read_only_then(file: Path) -> None:
    assert "GNU_RELRO" in readelf("--segments", file)
    assert re.search(r"\(FLAGS_1\).*\bNOW\b", readelf("--dynamic", file))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_it_may_lie_anywhere_and_its_stack_runs_no_code(file: Path) -> None:
    assert re.search(r"Type:\s+DYN", readelf("--file-header", file))
    (stack,) = [line for line in readelf("--segments", file).splitlines() if "GNU_STACK" in line]
    assert stack.split()[6] == "RW"


def test_the_program_is_one_that_may_lie_anywhere() -> None:
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", readelf("--dynamic", BINARY))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_arrays_on_the_stack_are_checked(file: Path) -> None:
    assert CHECKS_STACKS in imported(file)


@pytest.mark.parametrize("file", SHIPPED[:3], ids=lambda file: file.name)
def test_the_c_library_is_told_how_large_buffers_are(file: Path) -> None:
    checked = {name for name in imported(file) if name.startswith("__") and name.endswith("_chk")}
    assert checked, imported(file)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="endbr64 is an instruction of x86")
def test_functions_are_marked_as_places_to_jump_to() -> None:
    words = ["objdump", "-d", "--disassemble=vram_alloc", str(SHIPPED[1])]
    code = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    first = code.split("<vram_alloc>:\n", 1)[1].splitlines()[0]
    assert "endbr64" in first

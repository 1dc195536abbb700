"""The portable wheels require only an old glibc, and run on both processors."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wheels
from source_files import ROOT

VERSION = re.search(r"project\(vram VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
# Parts of glibc: below 2.34 they are separate files.
GLIBC = re.compile(r"lib(c|m|pthread|dl|rt)\.so\.\d+|ld-linux[\w.-]*\.so\.\d+")
# Loads the C libraries and asks them; the package's version and its program's come from elsewhere.
IN_PYTHON = """
import vram
from vram import reports
from vram._library import library
print(vram.__version__, library().vram_version().decode(), library().vram_status_text(1).decode())
print(",".join(reports._native.table_names()))
"""
TABLES = "runs,devices,steps,holders,findings,timeline,allocations,events"

RECORDINGS = sorted((ROOT / "demo").glob("*.pickle.xz"))
PROGRAM = "prefix/bin/vram"
Unpacked = Callable[[str], Path]
both = pytest.mark.parametrize("architecture", wheels.ARCHITECTURES)
# The first test that uses a root creates it: it installs a system.
pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, cwd: Path | None = None, timeout: float = 150, **changes: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        # TMPDIR and the like of this system may not exist in the other one.
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
            "TERM": "xterm",
            "PYTHONDONTWRITEBYTECODE": "1",
            **changes,
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def elf_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF")


def version() -> str:
    assert VERSION
    return VERSION[1]


@both
def test_the_tag_is_what_auditwheel_finds(architecture: str) -> None:
    wheel = wheels.wheel_of(architecture)
    assert wheel.name == f"vram-{version()}-py3-none-manylinux_2_28_{architecture}.whl"
    assert wheels.audit(wheel, architecture).startswith("manylinux_2_")


@both
def test_files_inside_are_tagged_too(architecture: str, unpacked: Unpacked) -> None:
    (metadata,) = unpacked(architecture).glob("vram-*.dist-info/WHEEL")
    assert re.findall(r"^Tag: (.*)$", metadata.read_text(), re.MULTILINE) == [f"py3-none-manylinux_2_28_{architecture}"]


@both
def test_licences_of_what_is_linked_in_are_there(architecture: str, unpacked: Unpacked) -> None:
    texts = sorted(unpacked(architecture).glob("vram-*.dist-info/licenses/third-party/*.txt"))
    names = " ".join(path.stem for path in texts)
    for library in (
        "libc++",
        "fmt",
        "zstd",
        "zlib",
        "xz",
        "sqlite3",
        "ncurses",
        "expected",
        "cli11",
        "json",
        "boost",
        "toml",
        "protozero",
        "stb",
        "fonts",
    ):
        assert library in names
    assert [path.name for path in texts if not 300 < path.stat().st_size < 100_000] == []


@both
def test_glibc_alone_is_needed(architecture: str, unpacked: Unpacked) -> None:
    files = elf_files(unpacked(architecture))
    assert {path.name for path in files} == {"vram", "libvram.so", "libvram_report.so", "libvram_tap.so"}
    for path in files:
        assert f"Machine: {MACHINES[architecture]}" in re.sub(r" +", " ", run("readelf", "-h", path))
        dynamic = run("readelf", "-d", path)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        assert needed
        # glibc itself loads libgcc_s. Only programs use it: a library in another program's process contains what it needs.
        others = ["libgcc_s.so.1"] if path.name == "vram" else []
        assert [name for name in needed if not GLIBC.fullmatch(name)] == others
        assert not re.search(r"\((RPATH|RUNPATH)\)", dynamic)


@both
def test_libraries_show_their_functions_alone(architecture: str, unpacked: Unpacked) -> None:
    for name, versions in (
        ("libvram.so", "src/capi/vram.map"),
        ("libvram_report.so", "src/reports/report.map"),
        ("libvram_tap.so", "src/tap/tap.map"),
    ):
        listed = run("readelf", "--dyn-syms", "--wide", unpacked(architecture) / "vram" / "lib" / name)
        shown = {words[7] for words in map(str.split, listed.splitlines()) if len(words) == 8 and words[6].isdigit()}
        allowed = re.findall(r"^ +(?:global: )?(\w+\*?);$", (ROOT / versions).read_text(), re.MULTILINE)
        assert shown
        assert [one for one in shown if not any(re.fullmatch(word.replace("*", r"\w+"), one) for word in allowed)] == []


@both
def test_no_path_of_the_building_machine_is_inside(architecture: str, unpacked: Unpacked) -> None:
    for path in unpacked(architecture).rglob("*"):
        assert not path.is_file() or str(ROOT).encode() not in path.read_bytes(), path


def test_debian_11(inside: Path, debian_11: Path, unpacked: Unpacked) -> None:
    wheel = shutil.copy(wheels.wheel_of("x86_64"), inside)
    chroot = ("chroot", debian_11)
    assert "2.31" in run(*chroot, "ldd", "--version").splitlines()[0]
    run(*chroot, "python3", "-m", "pip", "install", "--no-index", "--force-reinstall", f"/scratch/{Path(wheel).name}")
    assert version() in run(*chroot, "vram", "--version")
    # Python 3.9's own interpreter, with the library loaded into it.
    assert run(*chroot, "python3", "-c", IN_PYTHON) == f"{version()} {version()} out of memory\n{TABLES}\n"
    here = unpacked("x86_64") / PROGRAM
    for recording in RECORDINGS:
        there = run(*chroot, "vram", "report", f"/scratch/{recording.name}")
        assert "peak" in there
        assert there.replace("/scratch/", "") == run(here, "report", recording.name, cwd=recording.parent)


def test_x86_64_prints_the_golden_texts(unpacked: Unpacked) -> None:
    said = run(sys.executable, ROOT / "tests/golden/run.py", unpacked("x86_64") / PROGRAM)
    assert re.search(r"^[1-9]\d* passed, 0 failed", said, re.MULTILINE)


# Tests that depend on the compiler's run-time library: code in other programs, libraries that throw, threads, the network.
IN_USE = (
    "history_doc",
    "library",
    "linked_driver",
    "pool_recording",
    "record",
    "rocm",
    "run_strict",
    "serve",
    "status",
    "top",
)


def test_x86_64_in_use(unpacked: Unpacked, tmp_path: Path) -> None:
    """Run tests/python with the wheel's program and libraries in place of a build's, with the release build's fakes."""
    fakes = ROOT / "build" / "release" / "tests"
    if not (fakes / "fake_cuda" / "libcuda.so.1").exists():
        pytest.skip("the fake drivers are not built: cmake --preset release; cmake --build --preset release")
    folder = unpacked("x86_64")
    (tmp_path / "src").mkdir()
    for file in (folder / PROGRAM, *(folder / "vram" / "lib").glob("*.so")):
        shutil.copy(file, tmp_path / "src")
    shutil.copytree(folder / "prefix" / "share", tmp_path / "share")
    (tmp_path / "tests").symlink_to(fakes)
    files = [ROOT / "tests" / "python" / f"test_{name}.py" for name in IN_USE]
    # What is needed is another list with an old glibc: test_glibc_alone_is_needed.
    words: tuple[str | Path, ...] = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-k",
        "not needs_nothing_but_the_c_library",
        *files,
    )
    said = run(sys.executable, *words, cwd=ROOT, timeout=800, VRAM_BINARY=str(tmp_path / "src" / "vram"))
    assert re.search(r"^[1-9]\d* passed", said, re.MULTILINE), said


# A folder at a time, and a case of those that take seconds: all together take longer, emulated, than a test may.
GOLDEN = sorted({file.parent.relative_to(ROOT / "tests") for file in (ROOT / "tests/golden").glob("*/*/cmd")})


@pytest.mark.parametrize(
    "part", sorted({str(case) if case.parent.name == "tune" else f"{case.parent}/" for case in GOLDEN})
)
def test_aarch64_prints_the_golden_texts(aarch64: Path, unpacked: Unpacked, tmp_path: Path, part: str) -> None:
    program = unpacked("aarch64") / PROGRAM
    emulated = tmp_path / "vram"
    emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64-static -L "{aarch64}" "{program}" "$@"\n')
    emulated.chmod(0o755)
    assert version() in run(emulated, "--version")
    said = run(sys.executable, ROOT / "tests/golden/run.py", emulated, part, timeout=640)
    assert re.search(r"^[1-9]\d* passed, 0 failed", said, re.MULTILINE)


def test_aarch64_reports_as_x86_64(aarch64: Path, unpacked: Unpacked) -> None:
    emulated = ("qemu-aarch64-static", "-L", aarch64, unpacked("aarch64") / PROGRAM)
    for recording in RECORDINGS:
        text = run(*emulated, "report", recording.name, cwd=recording.parent)
        assert "peak" in text
        assert text == run(unpacked("x86_64") / PROGRAM, "report", recording.name, cwd=recording.parent)


def test_aarch64_library_in_python(aarch64: Path, unpacked: Unpacked) -> None:
    python = (aarch64 / "usr/bin/python3").resolve(strict=True)
    folder = unpacked("aarch64")
    emulated = ("qemu-aarch64-static", "-L", aarch64, "-E", f"PYTHONHOME={aarch64 / 'usr'}")
    said = run(*emulated, "-E", f"PYTHONPATH={folder}", python, "-c", IN_PYTHON)
    assert said == f"{version()} {version()} out of memory\n{TABLES}\n"


def test_aarch64_tap_in_front_of_a_program(aarch64: Path, unpacked: Unpacked) -> None:
    """Preloaded, its dlsym serves a program that finds functions by name: Python, through ctypes."""
    python = (aarch64 / "usr/bin/python3").resolve(strict=True)
    tap = unpacked("aarch64") / "vram" / "lib" / "libvram_tap.so"
    words = "import ctypes; print(ctypes.CDLL(None).getpid() > 0, 'libvram_tap' in open('/proc/self/maps').read())"
    emulated = ("qemu-aarch64-static", "-L", aarch64, "-E", f"PYTHONHOME={aarch64 / 'usr'}", "-E", f"LD_PRELOAD={tap}")
    assert run(*emulated, python, "-c", words) == "True True\n"

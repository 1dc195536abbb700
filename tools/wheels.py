#!/usr/bin/env python3
"""Builds and tests portable packages: wheels.py build [ARCHITECTURE...] | check | sdist.

build   makes a wheel for each processor in dist/, tagged manylinux
check   runs those wheels on an old system and on the other processor
sdist   makes the source package

The compiler and the tools are installed from PyPI into build/wheels/environment; tools/portable.py builds third-party libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_backend import commit
from debian import call, locked
from portable import FOLDER, GLIBC, Target, library_sources, licences, origins, stage, write_tools
from source_files import ROOT
from steps import StepFailed, digest

ARCHITECTURES = ("x86_64", "aarch64")
DIST = ROOT / "dist"
REQUIREMENTS = ROOT / "tools" / "requirements-wheels.txt"


def check_sources() -> None:
    """Raises StepFailed if the files differ from the commit that the packages would name."""
    made_of = commit()
    if made_of and made_of.endswith("-dirty"):
        raise StepFailed(
            f"the packages would be made of {made_of}: expected no changed and no untracked files in {ROOT}, see git status. "
            "Commit or remove them, or pass --allow-dirty (make wheels ALLOW_DIRTY=1) for packages that you do not distribute"
        )


def environment() -> Path:
    """Returns the interpreter that has the tools; its environment is created again when the requirements have changed."""
    folder = FOLDER / "environment"
    ready = folder / "ready"
    with locked(folder):
        if not ready.is_file() or ready.read_bytes() != REQUIREMENTS.read_bytes():
            call(sys.executable, "-m", "venv", "--clear", folder)
            pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
            call(*pip, "install", "--require-hashes", "--requirement", REQUIREMENTS)
            shutil.copy(REQUIREMENTS, ready)
    return folder / "bin" / "python"


def build(target: Target) -> Path:
    """Builds the wheel for this processor, in dist/."""
    if any(character.isspace() for character in str(ROOT)):  # configure scripts and flags are split there
        raise StepFailed(f"portable packages cannot be built in {str(ROOT)!r}: clone vram into a path without spaces")
    python = environment()
    sources = library_sources()
    made_by = digest([ROOT / "cmake" / "zig.cmake", ROOT / "tools" / "portable.py", REQUIREMENTS, *origins(sources)])
    stamp = target.folder / "made-by"
    if not stamp.is_file() or stamp.read_text() != made_by:  # a build folder keeps its flags and compilers
        shutil.rmtree(target.folder, ignore_errors=True)
        target.folder.mkdir(parents=True)
        stamp.write_text(made_by)
    zig = call(python, "-c", "import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / 'zig')").strip()
    write_tools(target, Path(zig), call(zig, "version").strip())
    made = target.folder / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    definitions = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "cmake" / "zig.cmake",
        "VRAM_ZIG_TOOLS": target.tools,
        "VRAM_ZIG_ARCHITECTURE": target.architecture,
        "VRAM_SYSROOT": target.sysroot,
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",  # zig's own cache does not support them
        **{f"FETCHCONTENT_SOURCE_DIR_{name}": folder for name, folder in stage(target, sources).items()},
    }
    settings = {
        "build-dir": target.folder / "cmake",
        "install.strip": "false",  # the linker has omitted symbols
        **{f"cmake.define.{name}": value for name, value in definitions.items()},
    }
    call(
        *(python, "-m", "build", "--wheel", "--no-isolation", "--outdir", made, ROOT),
        *(f"--config-setting={name}={value}" for name, value in settings.items()),
        CCACHE_COMPILERCHECK="content",  # the times of the tools above change with each build
    )
    wheel = add_licences(next(made.glob("*.whl")), licences(Path(zig)))
    tagged = call(python, "-m", "wheel", "tags", "--remove", "--platform-tag", target.platform_tag, wheel).strip()
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob(f"*-{target.platform_tag}.whl"):
        old.unlink()
    return Path(shutil.copy(made / Path(tagged).name, DIST))


def add_licences(wheel: Path, texts: dict[str, str]) -> Path:
    """Adds the licences of the linked libraries to the wheel."""
    inside = wheel.parent / "unpacked"
    call(environment(), "-m", "wheel", "unpack", "--dest", inside, wheel)
    (folder,) = inside.iterdir()
    (metadata,) = folder.glob("*.dist-info")
    (metadata / "licenses" / "third-party").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (metadata / "licenses" / "third-party" / f"{name}.txt").write_text(text)
    wheel.unlink()
    call(environment(), "-m", "wheel", "pack", "--dest-dir", wheel.parent, folder)
    return wheel


def source_package(folder: Path = DIST) -> Path:
    """Builds the source package in this folder and replaces an older one."""
    for old in folder.glob("vram-*.tar.gz"):
        old.unlink()
    call(environment(), "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (made,) = folder.glob("vram-*.tar.gz")
    return made


def wheel_of(architecture: str) -> Path:
    """Returns the wheel that `build` has made."""
    found = sorted(DIST.glob(f"*-{Target(architecture).platform_tag}.whl"))
    if len(found) != 1:
        raise StepFailed(f"dist/ has {len(found)} wheels for {architecture}, expected 1: run make wheels first")
    return found[0]


def audit(wheel: Path, architecture: str) -> str:
    """Returns the platform tag that auditwheel determines; raises StepFailed if it is newer than the wheel's tag."""
    shown = call(environment(), "-m", "auditwheel", "show", "--json", wheel)
    found = json.loads(shown[shown.index("{") :])
    tag: str = found["overall_tag"]
    if not tag.startswith("manylinux_") or not tag.endswith(f"_{architecture}"):
        raise StepFailed(f"{wheel.name}: auditwheel calls it {tag}, not manylinux for {architecture}:\n{shown}")
    needed = tuple(int(number) for number in tag.split("_")[1:3])
    if needed > tuple(int(number) for number in GLIBC.split(".")):
        raise StepFailed(f"{wheel.name}: needs glibc {needed[0]}.{needed[1]}, its tag promises {GLIBC}:\n{shown}")
    return tag


def sizes(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        largest = sorted(archive.infolist(), key=lambda entry: -entry.file_size)[:3]
    parts = ", ".join(f"{Path(entry.filename).name} {entry.file_size / 1e6:.1f} MB" for entry in largest)
    return f"{wheel.stat().st_size / 1e6:.1f} MB ({parts})"


def check() -> int:
    """Runs tests/wheels, which report what they skip and why."""
    # The long ones, the build from the source package and the golden texts under emulation, use one core each.
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "auto", "--dist", "worksteal", "tests/wheels"]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, "PYTHONPATH": "tools"}, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="build", choices=("build", "check", "sdist"))
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE", help=", ".join(ARCHITECTURES))
    parser.add_argument("--allow-dirty", action="store_true", help="build from changed or untracked files, too")
    asked = parser.parse_args()
    unknown = set(asked.architectures) - set(ARCHITECTURES)
    if unknown:
        parser.error(f"no such architecture: {', '.join(sorted(unknown))}; there are {', '.join(ARCHITECTURES)}")
    try:
        if asked.what == "check":
            return check()
        if not asked.allow_dirty:
            check_sources()
        if asked.what == "sdist":
            made = source_package()
            print(f"{made.relative_to(ROOT)}  {made.stat().st_size / 1e6:.1f} MB")
            return 0
        architectures = asked.architectures or ARCHITECTURES
        # At once, because half of a build's time is a configure script or a linker, on one core.
        with ThreadPoolExecutor() as pool:
            for architecture, wheel in zip(architectures, pool.map(build, map(Target, architectures)), strict=True):
                tag = audit(wheel, architecture)
                print(f"{wheel.relative_to(ROOT)}  auditwheel: {tag}  {sizes(wheel)}", flush=True)
    except StepFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

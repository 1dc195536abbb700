"""Provides the compiler and the third-party libraries of portable packages: zig, and libraries that it builds from source.

zig contains clang, libc++ and stubs of every glibc: linking for an old glibc proves that nothing newer is needed.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from debian import call, locked, need, source_packages
from source_files import ROOT
from steps import StepFailed

GLIBC = "2.28"
FOLDER = ROOT / "build" / "wheels"
# Built as part of vram's build, by their CMake files: the source package, and its name in cmake/deps.cmake.
BY_CMAKE = {"fmtlib": "FMT", "libzstd": "ZSTD", "xz-utils": "LIBLZMA"}
# Built here: their sources have no CMake files, or (zlib) lack files that these need.
BY_MAKE = ["zlib", "sqlite3", "ncurses"]
C_FLAGS = ["-O2", "-fPIC", "-ffunction-sections", "-fdata-sections"]
# Header-only libraries are the same for every processor, so the installed headers are used, but never all of
# /usr/include, which also contains this machine's glibc.
HEADERS = ["tl", "CLI", "nlohmann", "protozero", "boost", "stb", "toml++"]
CMAKE_PACKAGES = ["tl-expected", "CLI11", "nlohmann_json"]
TOOLS = (("CC", "cc"), ("AR", "ar"), ("RANLIB", "ranlib"))
JOBS = os.cpu_count() or 1
# The functions of the system's libgcc_s that programs use, by their symbol versions on every 64-bit Linux.
UNWINDER = {
    "GCC_3.0": "DeleteException ForcedUnwind GetGR GetIP GetLanguageSpecificData GetRegionStart RaiseException Resume SetGR SetIP",
    "GCC_3.3": "Backtrace FindEnclosingFunction GetCFA Resume_or_Rethrow",
    "GCC_4.2.0": "GetIPInfo",
}
# The folders of terminal descriptions on Debian, Red Hat and SUSE.
TERMINFO = "/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo"


@dataclass(frozen=True)
class Target:
    """A processor architecture, by its name in wheel tags."""

    architecture: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.architecture

    @property
    def tools(self) -> Path:
        return self.folder / "tools"

    @property
    def sysroot(self) -> Path:
        return self.folder / "sysroot"

    @property
    def platform_tag(self) -> str:
        return f"manylinux_{GLIBC.replace('.', '_')}_{self.architecture}"


def write_tools(target: Target, zig: Path, version: str) -> None:
    """Writes cc, c++, ar and ranlib for the target. They contain the version, because ccache identifies them by their text."""
    target.tools.mkdir(parents=True, exist_ok=True)
    for name in ("cc", "c++", "ar", "ranlib"):
        words = f"{name} -target {target.architecture}-linux-gnu.{GLIBC}" if name.startswith("c") else name
        text = f'#!/bin/sh\n# {version}\nexec "{zig}" {words} "$@"\n'
        file = target.tools / name
        if not file.is_file() or file.read_text() != text:
            file.write_text(text)
            file.chmod(0o755)


def library_sources() -> dict[str, Path]:
    """Returns the unpacked sources of the libraries that are built here, by package."""
    with locked(FOLDER / "sources"):
        return source_packages([*BY_CMAKE, *BY_MAKE], FOLDER / "sources")


def origins(sources: dict[str, Path]) -> list[str]:
    """Returns the first line of each package's changelog, with its version; if one changes, everything is built again."""
    found = []
    for folder in sources.values():
        with (folder / "debian/changelog").open(errors="replace") as changelog:
            line = changelog.readline().strip()
        if not line:
            raise StepFailed(f"{folder}/debian/changelog is empty: remove {folder.parent} and build again")
        found.append(line)
    return found


def put(file: Path, place: Path) -> None:
    """Copies a file atomically, because a file in the sysroot counts as built."""
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f".{place.name}.partial")
    shutil.copy(file, partial)
    os.replace(partial, place)


def stage(target: Target, sources: dict[str, Path]) -> dict[str, Path]:
    """Installs third-party headers and archives into the target's sysroot, and returns the sources that CMake builds."""
    need("tclsh", "tcl")
    _stage_headers(target)
    _build_zlib(target, sources["zlib"])
    _build_sqlite(target, sources["sqlite3"])
    _build_ncurses(target, sources["ncurses"])
    _build_unwinder(target)
    return {name: sources[package] for package, name in BY_CMAKE.items()}


def licences(zig: Path) -> dict[str, str]:
    """Returns the licence of each library that may be linked in, by name; most must accompany binaries."""
    found = {"libc++": (zig.parent / "lib/libcxx/LICENSE.TXT").read_text()}
    found["fonts"] = (ROOT / "src/pictures/fonts/COPYRIGHT").read_text()
    for package, folder in library_sources().items():
        found[package] = (folder / "debian/copyright").read_text()
    for name in HEADERS:
        # "package[:processor], package: path"; if there are several, the first is used.
        owners = call("dpkg-query", "--search", Path("/usr/include") / name).splitlines()[0].rpartition(": ")[0]
        package = sorted(owner.partition(":")[0] for owner in owners.split(", "))[0]
        text = (Path("/usr/share/doc") / package / "copyright").read_text()
        found[package] = _of_headers(text) if name == "boost" else text
    return found


def _of_headers(boost: str) -> str:
    """Extracts the part on the headers, and the text of their licence, from two megabytes about all of Boost."""
    kept = [part for part in boost.split("\n\n") if part.startswith(("Files: *\n", "License: BSL-1.0\n "))]
    if len(kept) < 2:
        raise StepFailed("the licence of Boost's headers is not where its package had it: see tools/portable.py")
    return "\n\n".join(kept) + "\n"


def _stage_headers(target: Target) -> None:
    include, share = target.sysroot / "usr/include", target.sysroot / "usr/share/cmake"
    for folder in (include, share):
        folder.mkdir(parents=True, exist_ok=True)
    for name in HEADERS:
        if not (Path("/usr/include") / name).is_dir():
            raise StepFailed(f"/usr/include/{name} is missing: run tools/setup.sh build, which installs its package")
        if not (include / name).is_symlink():
            (include / name).symlink_to(Path("/usr/include") / name)
    for name in CMAKE_PACKAGES:  # copies, because they find their headers relative to their own path
        shutil.copytree(Path("/usr/share/cmake") / name, share / name, dirs_exist_ok=True)


def _build_zlib(target: Target, source: Path) -> None:
    if (target.sysroot / "usr/lib/libz.a").is_file():
        return
    folder = target.folder / "zlib"  # it is built in its source folder
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, symlinks=True)
    words = [*(f"{name}={target.tools / tool}" for name, tool in TOOLS), f"CFLAGS={' '.join(C_FLAGS)}", "CHOST=linux"]
    call("env", "-C", folder, *words, "./configure", "--static", "--prefix=/usr")
    call("make", "-C", folder, "libz.a", f"-j{JOBS}")
    for name in ("zlib.h", "zconf.h"):
        put(folder / name, target.sysroot / "usr/include" / name)
    put(folder / "libz.a", target.sysroot / "usr/lib/libz.a")


def _build_sqlite(target: Target, source: Path) -> None:
    library = target.sysroot / "usr/lib/libsqlite3.a"
    if library.is_file():
        return
    one_file = FOLDER / "sources" / "sqlite3-one-file"  # the same for every target
    ready, (origin,) = one_file / "ready", origins({"sqlite3": source})
    with locked(one_file):
        if not ready.is_file() or ready.read_text() != origin:
            shutil.rmtree(one_file, ignore_errors=True)
            one_file.mkdir()
            call("env", "-C", one_file, source / "configure", "--disable-tcl")
            call("make", "-C", one_file, "sqlite3.c")
            ready.write_text(origin)
    compiled, archive = target.folder / "sqlite3.o", target.folder / "libsqlite3.a"
    options = ["-DNDEBUG", "-DSQLITE_THREADSAFE=1", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_DQS=0"]
    call(target.tools / "cc", *C_FLAGS, *options, "-c", one_file / "sqlite3.c", "-o", compiled)
    put(one_file / "sqlite3.h", target.sysroot / "usr/include/sqlite3.h")
    archive.unlink(missing_ok=True)
    call(target.tools / "ar", "rcs", archive, compiled)
    put(archive, library)


def _build_ncurses(target: Target, source: Path) -> None:
    folder = target.folder / "ncurses"
    if (folder / "installed").is_file():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    build = call("cc", "-dumpmachine").strip()
    without = "shared debug ada cxx cxx-binding manpages progs tests gpm"
    call(
        *("env", "-C", folder, source / "configure", "--prefix=/usr"),
        *(f"--host={target.architecture}-linux-gnu", f"--build={build}", "--with-build-cc=cc"),
        *(f"{name}={target.tools / tool}" for name, tool in TOOLS),
        f"CFLAGS={' '.join(C_FLAGS)}",
        *(f"--without-{part}" for part in without.split()),
        *("--enable-widec", "--with-termlib=tinfo", "--disable-db-install", "--disable-stripping"),
        *("--with-default-terminfo-dir=/usr/share/terminfo", f"--with-terminfo-dirs={TERMINFO}"),
    )
    for part in ("include", "ncurses"):
        call("make", "-C", folder / part, f"-j{JOBS}")
    for part in ("include", "ncurses"):
        call("make", "-C", folder / part, "install", f"DESTDIR={target.sysroot}")
    (folder / "installed").touch()


def _build_unwinder(target: Target) -> None:
    """Builds a stub to link programs against: at run time they load the system's libgcc_s, as programs linked by g++ do.

    A GPU library may throw through our frames. Its exceptions are unwound by libgcc_s, and the code that catches them
    must ask the same unwinder; zig would put another one, LLVM's, into the program.
    """
    folder = target.sysroot / "usr/lib"
    source, versions, library = (folder / f"unwinder.{kind}" for kind in ("c", "map", "so"))
    names = {version: [f"_Unwind_{name}" for name in listed.split()] for version, listed in UNWINDER.items()}
    source.write_text("".join(f"void {name}(void) {{}}\n" for listed in names.values() for name in listed))
    versions.write_text(
        "".join(f"{version} {{ global: {'; '.join(listed)}; }};\n" for version, listed in names.items())
    )
    options = ["-shared", "-nostdlib", "-fno-builtin", "-Wl,-soname,libgcc_s.so.1", f"-Wl,--version-script={versions}"]
    call(target.tools / "cc", "-O1", "-fPIC", *options, source, "-o", library)

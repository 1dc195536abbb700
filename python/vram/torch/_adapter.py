"""Compiles the adapter against the user's PyTorch, once, and keeps it.

It is kept in ``~/.cache/vram/``, ``$XDG_CACHE_HOME/vram/`` or, if neither can be used, ``/tmp/vram-cache-<uid>``. What is kept is named by all that it was made of (the sources, PyTorch's header and version, the ABI), so a new PyTorch
or a new vram gets an adapter of its own. The compiler is not part of the name: any one's output fits, and an adapter
that was compiled where there was one (a container's build) serves where there is none. Ranks that start together wait
for the first one's.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vram._error import VramError
from vram._library import PACKAGE
from vram.torch import _toolchain
from vram.torch._decorator import HeaderError, decorator
from vram.torch._toolchain import Torch

SOURCES = Path(__file__).resolve().parent / "adapter"
_FLAGS = (
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    # The C++ library is the one that PyTorch has loaded: where a compiler has only an archive of it, a second copy of it
    # would come in, whose locales the first one does not know.
    "-nodefaultlibs",
    "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",  # a generated header, of use on Windows alone and absent from some builds
)
_CPP20_FROM = (2, 13)


def adapter(torch: Torch, c_header: Path = PACKAGE / "include", libraries: tuple[Path, ...] = ()) -> tuple[Path, bool]:
    """The compiled adapter, and whether it had to be compiled. `libraries`: folders searched before PyTorch's own."""
    try:
        generated = decorator(torch.include)
    except (OSError, HeaderError) as error:
        raise VramError(
            f"PyTorch {torch.version}: its headers are not as vram knows them from 2.4 to 2.13: {error}; "
            "please report it with your version of PyTorch"
        ) from error
    folder = _cache_folder()
    target = folder / f"torch-{torch.version}-{_fingerprint(torch, generated, c_header)}.so"
    if target.is_file():
        return target, False
    with _alone(folder):
        if target.is_file():  # another process was first
            return target, False
        _compile(torch, generated, c_header, libraries, target)
    return target, True


def _fingerprint(torch: Torch, generated: str, c_header: Path) -> str:
    hashed = hashlib.sha256()
    sources = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    sources += sorted((c_header / "vram").glob("*.h"))
    for text in (path.read_bytes() for path in sources):
        hashed.update(hashlib.sha256(text).digest())
    facts = (generated, torch.version, str(torch.has_cxx11_abi), platform.machine(), *_FLAGS)
    hashed.update("\0".join(facts).encode())
    return hashed.hexdigest()[:16]


def _cache_folder() -> Path:
    """Return a folder that only this user can write to, because files in it are loaded into the process.

    Where the user's cache can't be had (a home that is read-only, or none), it is one below the folder of temporary files,
    which ranks share. A folder of this process alone is the last resort, and goes with it.
    """
    for folder in _cache_folders():
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(folder):
                return folder
    return _folder_of_this_process()


def _cache_folders() -> Iterator[Path]:
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")
    if os.path.isabs(base):  # "~" stays as it is where neither HOME nor the system says whose home it is
        yield Path(base) / "vram"
    yield Path(tempfile.gettempdir()) / f"vram-cache-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        return False
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and os.access(folder, os.W_OK | os.X_OK)


def _folder_of_this_process() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="vram-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in its forks
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time; where the file system has no locks, each for itself."""
    with open(folder / "lock", "w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(torch: Torch, generated: str, c_header: Path, libraries: tuple[Path, ...], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        (Path(scratch) / "decorator.hpp").write_text(generated)
        output = Path(scratch) / "adapter.so"
        command = _command(torch, Path(scratch), c_header, libraries, output)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise VramError(
                f"the adapter does not compile against PyTorch {torch.version}: {lines[0] if lines else 'no message'}\n"
                f"the command was: {' '.join(command)}"
            )
        os.replace(output, target)


def _command(torch: Torch, scratch: Path, c_header: Path, libraries: tuple[Path, ...], output: Path) -> list[str]:
    cuda = _toolchain.cuda_include(torch)
    own = [scratch, SOURCES, c_header]
    if not (cuda / "crt" / "host_defines.h").is_file():
        own.append(SOURCES / "without_crt")
    return [
        *_toolchain.compiler(),
        "-std=c++20" if torch.release >= _CPP20_FROM else "-std=c++17",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.has_cxx11_abi)}",
        *_FLAGS,
        *(f"-I{folder}" for folder in own),
        *(word for folder in (torch.include, cuda) for word in ("-isystem", str(folder))),
        str(SOURCES / "adapter.cpp"),
        *(f"-L{folder}" for folder in (*libraries, torch.lib)),
        "-lc10_cuda",
        "-lc10",
        "-lc",
        "-o",
        str(output),
    ]

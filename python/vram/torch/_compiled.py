"""Compiles what is made against the user's PyTorch, once, and keeps it.

It is kept in ``~/.cache/vram/``, ``$XDG_CACHE_HOME/vram/`` or, if neither can be used, ``/tmp/vram-cache-<uid>``. What is kept is named by all that it was made of (the sources, PyTorch's header and version, the ABI), so a new PyTorch
or a new vram gets one of its own. The compiler is not part of the name: any one's output fits, and what
was compiled where there was one (a container's build) serves where there is none. Ranks that start together wait
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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Callable

from vram._error import VramError
from vram._texts import tr
from vram.torch._toolchain import Torch

_FLAGS = (
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    # The C++ library is the one that PyTorch has loaded: where a compiler has only an archive of it, a second copy of it
    # would come in, whose locales the first one does not know.
    "-nodefaultlibs",
)
_CPP20_FROM = (2, 13)


def flags(torch: Torch) -> tuple[str, ...]:
    """Return the compiler's flags for a library that PyTorch's process loads."""
    standard = "-std=c++20" if torch.release >= _CPP20_FROM else "-std=c++17"
    return standard, f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.has_cxx11_abi)}", *_FLAGS


def fingerprint(torch: Torch, sources: Iterable[Path], facts: Iterable[str]) -> str:
    """Return a name for what these sources become with this PyTorch; `facts`: what else it is made of."""
    hashed = hashlib.sha256()
    for text in (path.read_bytes() for path in sources):
        hashed.update(hashlib.sha256(text).digest())
    every = (torch.version, platform.machine(), *flags(torch), *facts)
    hashed.update("\0".join(every).encode())
    return hashed.hexdigest()[:16]


def compiled(what: str, torch: Torch, key: str, command: Callable[[Path, Path], list[str]]) -> tuple[Path, bool]:
    """Return the library that `command` makes, and whether it had to be compiled.

    `key` is its fingerprint(). The command gets a folder for files that it generates, and the path of the library.
    """
    folder = _cache_folder()
    target = folder / f"{what}-torch-{torch.version}-{key}.so"
    if target.is_file():
        return target, False
    with _alone(folder):
        if target.is_file():  # another process was first
            return target, False
        _compile(what, torch, command, target)
    return target, True


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


def _compile(what: str, torch: Torch, command: Callable[[Path, Path], list[str]], target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="building-") as scratch:
        output = Path(scratch) / "library.so"
        words = command(Path(scratch), output)
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise VramError(
                tr("the {} does not compile against PyTorch {}: {}\nthe command was: {}").format(
                    what, torch.version, lines[0] if lines else "no message", " ".join(words)
                )
            )
        os.replace(output, target)

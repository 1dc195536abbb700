"""What compiling against the user's PyTorch takes: a compiler, PyTorch's headers, CUDA's headers.

Nothing here imports torch: facts about it come in as a Torch.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vram._error import VramError
from vram._texts import tr

_COMPILERS = ("g++", "c++", "clang++")
_CUDA_HEADER = "cuda_runtime_api.h"


@dataclass(frozen=True)
class Torch:
    """The PyTorch that is installed, as far as compiling against it goes."""

    version: str
    folder: Path
    has_cxx11_abi: bool

    @classmethod
    def installed(cls, torch: Any) -> Torch:
        return cls(str(torch.__version__), Path(torch.__file__).parent, bool(torch._C._GLIBCXX_USE_CXX11_ABI))

    @property
    def release(self) -> tuple[int, int]:
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def include(self) -> Path:
        return self.folder / "include"

    @property
    def lib(self) -> Path:
        return self.folder / "lib"


def compiler() -> list[str]:
    """The command of a C++ compiler: $CXX, or the first of the usual names that is on PATH."""
    named = os.environ.get("CXX")
    for name in [named] if named else _COMPILERS:
        command = shlex.split(name)
        if command and shutil.which(command[0]):
            return command
    looked_for = f"CXX={named}" if named else f"{', '.join(_COMPILERS)} on PATH"
    raise VramError(
        tr(
            "no C++ compiler (looked for {}): vram's adapter is compiled once against your PyTorch; "
            "install one (apt install g++, dnf install gcc-c++ or conda install -c conda-forge gxx), "
            "or set CXX to the compiler's command"
        ).format(looked_for)
    )


def cuda_include(torch: Torch) -> Path:
    """The folder of CUDA's headers: those that came with PyTorch, else an installed toolkit's."""
    folders = [*_in_packages(torch.folder.parent), *_toolkits()]
    for folder in folders:
        if (folder / _CUDA_HEADER).is_file():
            return folder
    raise VramError(
        tr(
            "no {} (looked in {}): vram's adapter is compiled once against your PyTorch and needs "
            "CUDA's runtime headers; install them (pip install nvidia-cuda-runtime, or "
            "nvidia-cuda-runtime-cu12 for CUDA 12) or set CUDA_HOME"
        ).format(_CUDA_HEADER, ", ".join(map(str, folders)))
    )


def _in_packages(packages: Path) -> list[Path]:
    """NVIDIA's own packages, which PyTorch's wheels bring."""
    nvidia = packages / "nvidia"
    newest_first = sorted(nvidia.glob("cu[0-9]*"), key=lambda folder: folder.name, reverse=True)
    return [*(folder / "include" for folder in newest_first), nvidia / "cuda_runtime" / "include"]


def _toolkits() -> list[Path]:
    homes = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    homes += [Path(nvcc).resolve().parents[1]] if nvcc else []
    homes += [Path("/usr/local/cuda"), Path(sys.prefix), Path(sys.prefix) / "targets" / "x86_64-linux"]
    return [home / "include" for home in homes]

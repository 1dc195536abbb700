"""Compiles the adapter against the user's PyTorch (_compiled.py keeps it)."""

from __future__ import annotations

from pathlib import Path

from vram._error import VramError
from vram._library import PACKAGE
from vram._texts import tr
from vram.torch import _toolchain
from vram.torch._compiled import compiled, fingerprint, flags
from vram.torch._decorator import HeaderError, decorator
from vram.torch._toolchain import Torch

SOURCES = Path(__file__).resolve().parent / "adapter"
_FLAGS = (
    "-DC10_CUDA_NO_CMAKE_CONFIGURE_FILE",
)  # a generated header, of use on Windows alone and absent from some builds


def adapter(torch: Torch, c_header: Path = PACKAGE / "include", libraries: tuple[Path, ...] = ()) -> tuple[Path, bool]:
    """The compiled adapter, and whether it had to be compiled. `libraries`: folders searched before PyTorch's own."""
    try:
        generated = decorator(torch.include)
    except (OSError, HeaderError) as error:
        raise VramError(
            tr(
                "PyTorch {}: its headers are not as vram knows them from 2.4 to 2.13: {}; please report "
                "it with your version of PyTorch"
            ).format(torch.version, error)
        ) from error
    sources = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    sources += sorted((c_header / "vram").glob("*.h"))

    def command(scratch: Path, output: Path) -> list[str]:
        (scratch / "decorator.hpp").write_text(generated)
        return _command(torch, scratch, c_header, libraries, output)

    return compiled("adapter", torch, fingerprint(torch, sources, (generated, *_FLAGS)), command)


def _command(torch: Torch, scratch: Path, c_header: Path, libraries: tuple[Path, ...], output: Path) -> list[str]:
    cuda = _toolchain.cuda_include(torch)
    own = [scratch, SOURCES, c_header]
    if not (cuda / "crt" / "host_defines.h").is_file():
        own.append(SOURCES / "without_crt")
    return [
        *_toolchain.compiler(),
        *flags(torch),
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

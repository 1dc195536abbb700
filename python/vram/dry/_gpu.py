"""The GPUs that a dry run can pretend to have: what programs and kernels' rules ask about them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vram._sizes import format_size, parse_size
from vram._texts import tr

_GIB = 1 << 30


@dataclass(frozen=True)
class Gpu:
    """A GPU as PyTorch describes it."""

    name: str
    total_bytes: int  # what PyTorch reports as the total, which is less than what the card is sold with
    capability: tuple[int, int]
    processors: int


def _gpu(name: str, total_gib: float, capability: tuple[int, int], processors: int) -> Gpu:
    return Gpu(name, int(total_gib * _GIB), capability, processors)


# Totals as in src/cli/recorded_program.cpp.
_KNOWN = (
    _gpu("H200", 139.8, (9, 0), 132),
    _gpu("H100 80GB", 79.11, (9, 0), 132),
    _gpu("A100 80GB", 79.25, (8, 0), 108),
    _gpu("A100 40GB", 39.50, (8, 0), 108),
    _gpu("A30", 23.53, (8, 0), 56),
    _gpu("A10", 21.99, (8, 6), 72),
    _gpu("L40", 44.40, (8, 9), 142),
    _gpu("L40S", 44.42, (8, 9), 142),
    _gpu("L4", 22.03, (8, 9), 58),
    _gpu("T4", 14.56, (7, 5), 40),
    _gpu("RTX 6000 Ada", 44.43, (8, 9), 142),
    _gpu("RTX A4000", 15.61, (8, 6), 48),
    _gpu("RTX 5090", 31.36, (12, 0), 170),
    _gpu("RTX 4090", 23.52, (8, 9), 128),
    _gpu("RTX 3090", 23.54, (8, 6), 82),
    _gpu("RTX 2080 Ti", 10.74, (7, 5), 68),
)
# Of the memory that a card is sold with, programs get this share at least; as in src/cli/recorded_program.cpp.
_PROGRAM_SHARE = 0.98


def _plain(name: str) -> str:
    return re.sub("nvidia|geforce|tesla", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def find_gpu(text: str) -> Gpu:
    """Return the GPU of this name or size. A GPU that is only a size ("24GiB") is otherwise an H200.

    Raises:
        TypeError: `text` is no text.
        ValueError: `text` is neither.

    >>> find_gpu("NVIDIA GeForce RTX 4090").capability
    (8, 9)
    """
    if not isinstance(text, str):
        raise TypeError(
            tr("expected gpu to be a name such as 'RTX 4090' or a size such as '24GiB', got {}").format(
                type(text).__name__
            )
        )
    for gpu in _KNOWN:
        if _plain(gpu.name) == _plain(text):
            return gpu
    try:
        size = parse_size(text)
    except ValueError:
        names = ", ".join(gpu.name for gpu in _KNOWN)
        raise ValueError(tr("'{}' is neither a known GPU ({}) nor a size such as 24GiB").format(text, names)) from None
    return Gpu(tr("GPU of {}").format(format_size(size)), int(size * _PROGRAM_SHARE), (9, 0), 132)

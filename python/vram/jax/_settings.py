"""JAX's memory settings. They are environment variables that JAX reads when it first uses a device, and never again."""

from __future__ import annotations

import os
import sys

from vram._error import VramError

_FRACTION, _FRACTION_ONCE = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")


def preallocate(enabled: bool) -> None:
    """Whether JAX takes its share of each GPU at once (its default), or piece by piece as it is needed.

    At once: no fragmentation, and nothing left for other processes. Piece by piece: other programs may have what JAX has
    not asked for yet; what it has taken it keeps, and it may run out of memory earlier. Sets XLA_PYTHON_CLIENT_PREALLOCATE
    for this process and those that it starts. Call it from one thread, before the first operation of JAX.

    Raises VramError when JAX has set up its devices already.

    >>> import os, vram
    >>> vram.jax.preallocate(False)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_PREALLOCATE")
    'false'
    """
    _set("XLA_PYTHON_CLIENT_PREALLOCATE", "true" if enabled else "false")


def memory_fraction(fraction: float) -> None:
    """The share of each whole GPU that JAX takes at most; JAX's default is 0.75.

    0.45 each lets two processes share a GPU. Above 0.9 little is left for the CUDA context, libraries and NCCL, which
    allocate outside. Sets XLA_PYTHON_CLIENT_MEM_FRACTION, the name that every version reads, or XLA_CLIENT_MEM_FRACTION
    where that one is set already (JAX refuses both). Call it from one thread, before the first operation of JAX.

    Raises VramError for what is no share (more than 0, at most 1), and when JAX has set up its devices already.

    >>> import os, vram
    >>> vram.jax.memory_fraction(0.45)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_MEM_FRACTION")
    '0.45'
    """
    if not 0 < fraction <= 1:
        raise VramError(f"the fraction is more than 0 and at most 1, not {fraction}")
    _set(_FRACTION if _FRACTION in os.environ else _FRACTION_ONCE, str(fraction))


def allocator(name: str) -> None:
    """Who hands out JAX's GPU memory: "default" (XLA's own, "bfc"), "cuda_async", "vmm" or "platform".

    "bfc" keeps what it has. "cuda_async" is the driver's pool, shared with others who use it. "platform" asks the driver for
    each buffer and gives it back: the only one that keeps nothing, and slow; for looking into a lack of memory, not for
    training. Older versions of JAX know only some. Sets XLA_PYTHON_CLIENT_ALLOCATOR. Call it from one thread, before the
    first operation of JAX.

    Raises VramError for another name, and when JAX has set up its devices already.

    >>> import os, vram
    >>> vram.jax.allocator("platform")
    >>> os.environ.pop("XLA_PYTHON_CLIENT_ALLOCATOR")
    'platform'
    """
    if name not in _ALLOCATORS:
        raise VramError(f"JAX's allocators are {', '.join(_ALLOCATORS)}; '{name}' is none of them")
    _set("XLA_PYTHON_CLIENT_ALLOCATOR", name)


def _set(name: str, value: str) -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "backends_are_initialized", bool)():
        raise VramError(
            f"{name}={value} would have no effect: JAX reads it when it sets up its devices, and it has; "
            "call this before the program's first operation on an array, or set it in the shell"
        )
    os.environ[name] = value

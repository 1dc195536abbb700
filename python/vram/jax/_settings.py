"""JAX's memory settings. They are environment variables that JAX reads when it first uses a device, and never again."""

from __future__ import annotations

import os
import sys

from vram._error import VramError

_FRACTION, _FRACTION_ONCE = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")


def preallocate(enabled: bool) -> None:
    """Select whether JAX reserves its share of each GPU at the start (its default), or allocates as needed.

    Reserved at the start, memory does not fragment, but is not available to other processes. Allocated as needed, other programs
    can use the rest; JAX keeps what it has allocated, and may run out of memory earlier. Sets XLA_PYTHON_CLIENT_PREALLOCATE for
    this process and its children. Call it from one thread, before JAX's first operation.

    Raises:
        VramError: JAX has initialized its devices already.

    >>> import os, vram
    >>> vram.jax.preallocate(False)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_PREALLOCATE")
    'false'
    """
    _set("XLA_PYTHON_CLIENT_PREALLOCATE", "true" if enabled else "false")


def memory_fraction(fraction: float) -> None:
    """Set the maximum share of each GPU that JAX uses; JAX's default is 0.75.

    With 0.45 each, two processes can share a GPU. Above 0.9 little is left for the CUDA context, libraries and NCCL, which
    allocate separately. Sets XLA_PYTHON_CLIENT_MEM_FRACTION, the name that every version reads, or XLA_CLIENT_MEM_FRACTION if
    that one is set already (JAX refuses both). Call it from one thread, before JAX's first operation.

    Raises:
        VramError: the fraction is not above 0 and at most 1, or JAX has initialized its devices already.

    >>> import os, vram
    >>> vram.jax.memory_fraction(0.45)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_MEM_FRACTION")
    '0.45'
    """
    if not 0 < fraction <= 1:
        raise VramError(f"the fraction is more than 0 and at most 1, not {fraction}")
    _set(_FRACTION if _FRACTION in os.environ else _FRACTION_ONCE, str(fraction))


def allocator(name: str) -> None:
    """Select JAX's GPU allocator: "default" (XLA's own, "bfc"), "cuda_async", "vmm" or "platform".

    "bfc" keeps its memory. "cuda_async" is the driver's pool, shared with its other users. "platform" allocates each buffer from
    the driver and frees it: it keeps nothing and is slow, useful for examining memory shortages but not for training. Older
    versions of JAX support only some of them. Sets XLA_PYTHON_CLIENT_ALLOCATOR. Call it from one thread, before JAX's first
    operation.

    Raises:
        VramError: another name, or JAX has initialized its devices already.

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

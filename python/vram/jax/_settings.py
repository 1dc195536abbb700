"""JAX's memory settings: environment variables that JAX reads only when it first uses a device."""

from __future__ import annotations

import os
import sys

from vram._arguments import require_fraction, require_one_of
from vram._error import VramError
from vram._texts import tr

_FRACTION, _FRACTION_ONCE = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"
_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")


def preallocate(enabled: bool) -> None:
    """Set whether JAX takes its fraction of each GPU at once (its default) or as needed.

    At once: there is no fragmentation, but no memory is left for other processes. As needed: other programs can use
    the memory that JAX has not requested yet. JAX keeps what it has taken, and may run out of memory earlier. Sets
    XLA_PYTHON_CLIENT_PREALLOCATE for this process and its children. Call it from one thread, before JAX's first
    operation.

    Raises:
        VramError: JAX has already initialized its devices.

    >>> import os, vram
    >>> vram.jax.preallocate(False)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_PREALLOCATE")
    'false'
    """
    _set("XLA_PYTHON_CLIENT_PREALLOCATE", "true" if enabled else "false")


def memory_fraction(fraction: float) -> None:
    """Set the fraction of each GPU's total memory that JAX may take; JAX's default is 0.75.

    With 0.45 each, two processes can share a GPU. Above 0.9, little is left for the CUDA context, libraries and NCCL,
    which allocate outside. Sets XLA_PYTHON_CLIENT_MEM_FRACTION, the name that every version reads, or
    XLA_CLIENT_MEM_FRACTION if that is set already (JAX refuses both). Call it from one thread, before JAX's first
    operation.

    Args:
        fraction: More than 0 and at most 1.

    Raises:
        ValueError: The fraction is out of range.
        VramError: JAX has already initialized its devices.

    >>> import os, vram
    >>> vram.jax.memory_fraction(0.45)
    >>> os.environ.pop("XLA_PYTHON_CLIENT_MEM_FRACTION")
    '0.45'
    """
    require_fraction(fraction=fraction)
    _set(_FRACTION if _FRACTION in os.environ else _FRACTION_ONCE, str(fraction))


def allocator(name: str) -> None:
    """Select JAX's allocator: "default" (XLA's own, "bfc"), "cuda_async", "vmm" or "platform".

    "bfc" keeps the memory that it has taken. "cuda_async" is the driver's pool, which it shares with other users.
    "platform" requests each buffer from the driver and returns it: it keeps nothing and is slow; use it to investigate
    a lack of memory, not to train. Older versions of JAX support only some. Sets XLA_PYTHON_CLIENT_ALLOCATOR. Call it
    from one thread, before JAX's first operation.

    Raises:
        ValueError: There is no such allocator.
        VramError: JAX has already initialized its devices.

    >>> import os, vram
    >>> vram.jax.allocator("platform")
    >>> os.environ.pop("XLA_PYTHON_CLIENT_ALLOCATOR")
    'platform'
    """
    require_one_of(_ALLOCATORS, name=name)
    _set("XLA_PYTHON_CLIENT_ALLOCATOR", name)


def _set(name: str, value: str) -> None:
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "backends_are_initialized", bool)():
        raise VramError(
            tr(
                "{}={} would have no effect: JAX reads it when it sets up its devices, and it has; call "
                "this before the program's first operation on an array, or set it in the shell"
            ).format(name, value)
        )
    os.environ[name] = value

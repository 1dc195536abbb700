"""vram's pool under PyTorch: ``vram.enable()`` and ``vram.disable()``. See docs/pytorch.md.

Importing this module does not import torch; enable() does.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vram import _library
from vram._error import VramError
from vram._sizes import parse_limit
from vram._texts import tr
from vram.torch._adapter import adapter
from vram.torch._toolchain import Torch

_OLDEST = (2, 4)
_REGISTER_ALL = "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"
# Of adapter/adapter.cpp; those that return a text return why they failed.
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "vram_torch_install": (ctypes.c_char_p, [ctypes.c_uint64]),
    "vram_torch_uninstall": (None, []),
    "vram_torch_tap": (ctypes.c_char_p, [ctypes.c_int]),
    "vram_torch_untap": (None, []),
}


@dataclass(frozen=True)
class Enabled:
    """The result of ``vram.enable()``."""

    torch_version: str
    adapter: Path
    compiled: bool  # the adapter was compiled by this call
    limit_bytes: int | None
    notes: tuple[str, ...]  # settings that have no effect under the pool, as warned about


class _State:
    adapter: ctypes.CDLL | None = None  # loaded once: blocks refer to it as long as the process lives
    enabled: Enabled | None = None


def enable(device_limit: int | str | None = None) -> Enabled:
    """Use vram's pool for PyTorch's CUDA memory from now on. Existing tensors stay where they are.

    Call it from one thread, best before the first CUDA tensor. The first call with a version of PyTorch compiles the
    adapter, which takes 3 to 5 s. Settings that have no effect with the pool cause warnings.

    Args:
        device_limit: The most memory to reserve on each device, "20GiB" or a number of bytes, at least 1 MiB. None: no
            limit other than the device's memory.

    Raises:
        ValueError: `device_limit` is not a size, or below 1 MiB.
        VramError: There is no GPU, no PyTorch 2.4 or newer with CUDA, or neither a compiler nor a compiled adapter.

    >>> import vram
    >>> try:
    ...     enabled = vram.enable(device_limit="20GiB")
    ... except vram.VramError as error:
    ...     print(error)  # the program continues with PyTorch's own allocator
    PyTorch ... is built without CUDA; install one with it (see pytorch.org)
    >>> vram.is_enabled()
    False
    """
    limit = None if device_limit is None else parse_limit(device_limit)
    facts, file, compiled = prepare_adapter(_import_torch())
    loaded = load(file)
    failure = loaded.vram_torch_install(limit or 0)
    if failure is not None:
        raise VramError(
            tr("PyTorch {} did not take the pool: {}").format(facts.version, failure.decode(errors="replace"))
        )
    notes = _notes()
    for note in notes:
        warnings.warn(note, stacklevel=2)
    _State.enabled = Enabled(facts.version, file, compiled, limit, notes)
    return _State.enabled


def disable() -> None:
    """Use PyTorch's own allocator for requests from now on.

    Tensors of the pool stay valid and return to it: ``record_stream()`` still protects them, and
    ``torch.cuda.empty_cache()`` still releases the pool's free memory. Calling this again has no effect. Call it from
    the thread that called enable().

    >>> import vram
    >>> vram.disable()
    >>> vram.is_enabled()
    False
    """
    if _State.adapter is not None and _State.enabled is not None:
        _State.adapter.vram_torch_uninstall()
        _State.enabled = None


def is_enabled() -> bool:
    """Return whether PyTorch's CUDA memory comes from the pool. Any thread may call this.

    >>> import vram
    >>> vram.is_enabled()
    False
    """
    return _State.enabled is not None


def prepare_adapter(torch: Any) -> tuple[Torch, Path, bool]:
    """Return the installed PyTorch, its adapter, and whether that was compiled now.

    Raises:
        VramError: There can be no adapter.
    """
    facts = Torch.installed(torch)
    _check(torch, facts)
    _library.library()  # before the adapter, which calls it
    return facts, *adapter(facts)


def _import_torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise VramError(
            tr("vram.enable() puts the pool under PyTorch, but torch can't be imported: {}").format(error)
        ) from error


def _check(torch: Any, facts: Torch) -> None:
    """Raise VramError if this PyTorch cannot use the pool."""
    if getattr(torch.version, "hip", None):
        raise VramError(tr("PyTorch {} is built for ROCm; vram needs one built for CUDA").format(facts.version))
    if torch.version.cuda is None:
        raise VramError(
            tr("PyTorch {} is built without CUDA; install one with it (see pytorch.org)").format(facts.version)
        )
    if facts.release < _OLDEST:
        raise VramError(
            tr("PyTorch {} is too old; vram needs {}.{} or newer").format(facts.version, _OLDEST[0], _OLDEST[1])
        )
    require_driver()


def require_driver() -> None:
    """Check that this machine has a CUDA driver; ``VRAM_CUDA_DRIVER`` names another one, as for the C library.

    Raises:
        VramError: There is no driver.
    """
    try:
        # Loaded, not initialized: a later fork stays possible.
        ctypes.CDLL(os.environ.get("VRAM_CUDA_DRIVER") or "libcuda.so.1")
    except OSError as error:
        raise VramError(
            tr("no CUDA driver on this machine ({}); install NVIDIA's, or run where it is").format(error)
        ) from error


def has_driver() -> bool:
    """Return whether this machine has CUDA's driver, and may therefore have a GPU. Initializes nothing."""
    try:
        require_driver()
    except VramError:
        return False
    return True


def loaded_adapter() -> ctypes.CDLL | None:
    """Return the adapter if this process has loaded it."""
    return _State.adapter


def load(file: Path) -> ctypes.CDLL:
    """Load the adapter from a file, unless this process has one, and return it.

    Raises:
        VramError: The file is not an adapter.
    """
    if _State.adapter is None:
        try:
            loaded = ctypes.CDLL(str(file))
            _library.declare(loaded, _PROTOTYPES)
        except (OSError, AttributeError) as error:
            raise VramError(
                tr("the adapter can't be loaded ({}); delete {} and try again").format(error, file)
            ) from error
        _State.adapter = loaded
    return _State.adapter


def _notes() -> tuple[str, ...]:
    """Return notes on the user's PyTorch settings that have no effect with the pool."""
    notes = []
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING", "0") not in ("", "0"):
        notes.append(
            tr("PYTORCH_NO_CUDA_MEMORY_CACHING is set, but vram's pool keeps memory; disable() it to go without")
        )
    if os.environ.get(_REGISTER_ALL, "0") not in ("", "0"):
        notes.append(
            tr(
                "{} is set: NCCL registers PyTorch's own segments only, not the pool's memory; allocate "
                "buffers that are to be registered in a torch.cuda.MemPool"
            ).format(_REGISTER_ALL)
        )
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        settings = os.environ.get(name, "")
        if re.search(r"backend\s*:\s*cudaMallocAsync", settings):
            notes.append(
                tr(
                    "{} asks for the backend cudaMallocAsync: under vram's pool it serves private pools only "
                    "(CUDA graphs, MemPool); leave it out"
                ).format(name)
            )
        ignored = re.findall(
            r"(expandable_segments|max_split_size_mb|garbage_collection_threshold|roundup_power2_divisions)\s*:",
            settings,
        )
        if ignored:
            notes.append(
                tr(
                    "{} sets {}: that is about PyTorch's own allocator, which under vram's pool serves "
                    "private pools only (CUDA graphs, MemPool); the pool has no need of it"
                ).format(name, ", ".join(dict.fromkeys(ignored)))
            )
    return tuple(notes)

"""vram's pool under CuPy: ``vram.cupy.enable()``. Importing this module does not import cupy; enable() does.

CuPy requests a size on a device for work in the current stream, and frees without naming a stream; the pool assigns
the block to the stream of the request. Before you destroy a stream on which arrays were created, call
``vram.cupy.forget_stream(stream)``. Reading the current stream of another device would change devices, so the device
is always the current one, as in CuPy's own pool.

The per-thread default stream (``cupy.cuda.Stream.ptds``) is refused, because its handle means a different stream in
each thread. Arrays that a captured graph uses must live as long as the graph, as with CuPy's own pool.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from vram._error import VramError
from vram._library import Pool, last_error, library, status_text
from vram._prototypes import NOT_SUPPORTED, OK, OUT_OF_MEMORY
from vram._texts import tr

__all__ = ["disable", "enable", "forget_stream", "is_enabled"]


class _Allocator:
    """The functions that CuPy calls: malloc and free by address, with one pool per device."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._library = library()
        self._pools: dict[int, Pool] = {}
        self.allocate = cupy.cuda.PythonFunctionAllocator(self._malloc, self._free).malloc

    def pool(self, device: int) -> Pool:
        if device not in self._pools:
            self._pools[device] = Pool(device)
        return self._pools[device]

    def open_pools(self) -> list[Pool]:
        return list(self._pools.values())

    def _malloc(self, size: int, device: int) -> int:
        pool = self.pool(device)
        stream = self._cupy.cuda.get_current_stream().ptr
        block = ctypes.c_void_p()
        status = self._request(pool, size, stream, block)
        if status == OK:
            return block.value or 0
        if status == OUT_OF_MEMORY:
            reserved = pool.stats().reserved_bytes.current
            raise self._cupy.cuda.memory.OutOfMemoryError(size, reserved) from VramError(pool.oom_text())
        why = last_error() if status == NOT_SUPPORTED else status_text(status)
        raise VramError(tr("vram: {} bytes on device {}: {}").format(size, device, why))

    def _request(self, pool: Pool, size: int, stream: int, block: ctypes.c_void_p) -> int:
        """Request a block. While the stream is captured, the pool must not wait for the device, which would break the capture."""
        if not self._is_captured(stream):
            return int(self._library.vram_alloc(pool.handle, size, stream, ctypes.byref(block)))
        self._library.vram_begin_capture(pool.handle)
        try:
            return int(self._library.vram_alloc(pool.handle, size, stream, ctypes.byref(block)))
        finally:
            self._library.vram_end_capture(pool.handle)

    def _is_captured(self, stream: int) -> bool:
        is_captured = getattr(self._cupy.cuda.runtime, "streamIsCapturing", None)
        if is_captured is None:  # a CuPy that can't capture
            return False
        try:
            return bool(is_captured(stream))
        except RuntimeError:  # CUDA cannot answer for the default stream while a stream that it waits for is captured
            return True

    def _free(self, address: int, device: int) -> None:
        self._library.vram_free(self.pool(device).handle, address)


class _State:
    # Lives as long as the process, because arrays of the pool may.
    allocator: _Allocator | None = None
    before: Any = None
    is_enabled = False


def enable() -> None:
    """Use vram's pool for CuPy's device memory from now on. Existing arrays stay where they are.

    Calling it again has no effect. Call it from one thread.

    Raises:
        VramError: There is no CuPy, or no GPU.

    >>> import vram
    >>> try:
    ...     vram.cupy.enable()
    ... except vram.VramError as error:
    ...     print(error)  # the program continues with CuPy's own pool
    vram.cupy.enable() puts the pool under CuPy, but cupy can't be imported: ...
    >>> vram.cupy.is_enabled()
    False
    """
    if _State.is_enabled:
        return
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise VramError(
            tr("vram.cupy.enable() puts the pool under CuPy, but cupy can't be imported: {}").format(error)
        ) from error
    if _State.allocator is None:
        _State.allocator = _Allocator(cupy)
    _State.allocator.pool(0)  # raises at once if there can be none
    _State.before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(_State.allocator.allocate)
    _State.is_enabled = True


def disable() -> None:
    """Use CuPy's previous allocator for requests from now on. Arrays of the pool stay valid and return to it.

    Calling it again has no effect. Call it from the thread that called enable().

    >>> import vram
    >>> vram.cupy.disable()
    """
    if _State.is_enabled:
        importlib.import_module("cupy").cuda.set_allocator(_State.before)
        _State.is_enabled = False


def is_enabled() -> bool:
    """Return whether CuPy's device memory comes from the pool. Any thread may call this.

    >>> import vram
    >>> vram.cupy.is_enabled()
    False
    """
    return _State.is_enabled


def forget_stream(stream: Any) -> None:
    """Tell the pool that a stream will be destroyed. Call it before you destroy a stream on which arrays were created.

    Does not block, and does nothing if the pool was never enabled. Any thread may call this.

    Args:
        stream: A ``cupy.cuda.Stream``.

    Raises:
        VramError: The stream cannot be forgotten: it is the per-thread default stream, or this is a forked child.

    >>> import types, vram
    >>> vram.cupy.forget_stream(types.SimpleNamespace(ptr=0))
    """
    if _State.allocator is None:
        return
    answers = [library().vram_forget_stream(pool.handle, stream.ptr) for pool in _State.allocator.open_pools()]
    for status in answers:
        if status != OK:
            raise VramError(tr("stream {:#x} is not forgotten: {}").format(stream.ptr, status_text(status)))

"""The pool under CuPy: ``vram.cupy.enable()``. Importing this module does not import cupy; enable() does.

CuPy allocates with a size and a device, for work in the current stream, and frees without a stream: the pool orders a block
by the stream of its allocation. Before a stream is destroyed while the pool is in use, call
``vram.cupy.forget_stream(stream)``. The current stream of another device cannot be queried without changing devices, so the
device is the current one, as for CuPy's own pool.

The per-thread default stream (``cupy.cuda.Stream.ptds``) is refused: its handle means another stream in each thread. Arrays
that a captured graph uses must live as long as the graph, as with CuPy's own pool.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

from vram._error import VramError
from vram._library import NOT_SUPPORTED, OK, OUT_OF_MEMORY, Pool, library, status_text


class _Allocator:
    """What CuPy calls: malloc and free by address, for each device its pool."""

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
        why = self._library.vram_last_error().decode() if status == NOT_SUPPORTED else status_text(status)
        raise VramError(f"vram: {size} bytes on device {device}: {why}")

    def _request(self, pool: Pool, size: int, stream: int, block: ctypes.c_void_p) -> int:
        """While the stream is captured into a graph, the pool must not wait for the device: that breaks the capture."""
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
        except RuntimeError:  # of the default stream it can't be told while a stream that it waits for is captured
            return True

    def _free(self, address: int, device: int) -> None:
        self._library.vram_free(self.pool(device).handle, address)


class _State:
    # Lives as long as the process, as arrays of the pool may.
    allocator: _Allocator | None = None
    before: Any = None
    is_enabled = False


def enable() -> None:
    """Make CuPy allocate device memory from vram's pool. Existing arrays are not moved.

    Calling it again has no effect. Call it from one thread.

    Raises:
        VramError: CuPy cannot be imported, or there is no GPU.

    >>> import vram
    >>> try:
    ...     vram.cupy.enable()
    ... except vram.VramError as error:
    ...     print(error)  # the program goes on with CuPy's own pool
    vram.cupy.enable() puts the pool under CuPy, but cupy can't be imported: ...
    >>> vram.cupy.is_enabled()
    False
    """
    if _State.is_enabled:
        return
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise VramError(f"vram.cupy.enable() puts the pool under CuPy, but cupy can't be imported: {error}") from error
    if _State.allocator is None:
        _State.allocator = _Allocator(cupy)
    _State.allocator.pool(0)  # says at once where there can't be one
    _State.before = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(_State.allocator.allocate)
    _State.is_enabled = True


def disable() -> None:
    """Restore CuPy's previous allocator. Arrays of the pool stay valid and are freed to it.

    Calling it again has no effect. Call it from the thread that called enable().

    >>> import vram
    >>> vram.cupy.disable()
    """
    if _State.is_enabled:
        importlib.import_module("cupy").cuda.set_allocator(_State.before)
        _State.is_enabled = False


def is_enabled() -> bool:
    """Return whether CuPy's device memory comes from the pool. May be called from any thread.

    >>> import vram
    >>> vram.cupy.is_enabled()
    False
    """
    return _State.is_enabled


def forget_stream(stream: Any) -> None:
    """Prepare the pool for the destruction of a stream in which arrays were allocated.

    Waits for nothing; may be called from any thread. Has no effect if the pool was never enabled.

    Args:
        stream: a ``cupy.cuda.Stream``.

    Raises:
        VramError: it is the per-thread default stream, or this process is a forked child.

    >>> import types, vram
    >>> vram.cupy.forget_stream(types.SimpleNamespace(ptr=0))
    """
    if _State.allocator is None:
        return
    answers = [library().vram_forget_stream(pool.handle, stream.ptr) for pool in _State.allocator.open_pools()]
    for status in answers:
        if status != OK:
            raise VramError(f"stream {stream.ptr:#x} is not forgotten: {status_text(status)}")

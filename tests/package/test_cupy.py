"""vram.cupy: CuPy's requests reach the pool of the right device, in the current stream, and return to it."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import vram
from vram import _library, _prototypes
from vram import cupy as vram_cupy


class FakeLibrary:
    """libvram.so with one block of each size, whose address is the size and the device."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.missing_device = 9
        self.forgets = _prototypes.OK

    def vram_pool_open(self, device: int, _options: None, pool: Any) -> int:
        if device == self.missing_device:
            return 4
        pool._obj.value = 100 + device
        return _prototypes.OK

    def vram_last_error(self) -> bytes:
        return b"no such device"

    def vram_alloc(self, pool: Any, size: int, stream: int, block: Any) -> int:
        self.calls.append(("alloc", pool.value, size, stream))
        if stream == 2:
            return 3
        block._obj.value = size * 1000 + pool.value
        return _prototypes.OUT_OF_MEMORY if size > 500 else _prototypes.OK

    def vram_free(self, pool: Any, address: int) -> int:
        self.calls.append(("free", pool.value, address))
        return _prototypes.OK

    def vram_forget_stream(self, pool: Any, stream: int) -> int:
        self.calls.append(("forget", pool.value, stream))
        return self.forgets

    def vram_status_text(self, status: int) -> bytes:
        return f"status {status}".encode()

    def vram_begin_capture(self, pool: Any) -> int:
        self.calls.append(("begin capture", pool.value))
        return _prototypes.OK

    def vram_end_capture(self, pool: Any) -> int:
        self.calls.append(("end capture", pool.value))
        return _prototypes.OK

    def vram_get_stats(self, _pool: Any, stats: Any) -> int:
        stats._obj.reserved_bytes.current = 4096
        return _prototypes.OK

    def vram_explain_oom(self, _pool: Any, text: Any, _capacity: int) -> int:
        text.value = b"all of it is in use"
        return 19


class FakeCupyError(MemoryError):
    pass


class FunctionAllocator:
    def __init__(self, malloc: Callable[[int, int], int], free: Callable[[int, int], None]) -> None:
        self.functions = (malloc, free)

    def malloc(self, size: int) -> int:
        return self.functions[0](size, 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    stream = SimpleNamespace(ptr=77)
    cuda = SimpleNamespace(
        current="cupy's own",
        PythonFunctionAllocator=FunctionAllocator,
        get_current_stream=lambda: stream,
        memory=SimpleNamespace(OutOfMemoryError=FakeCupyError),
        runtime=SimpleNamespace(streamIsCapturing=lambda stream: stream == 88),
    )
    cuda.get_allocator = lambda: cuda.current
    cuda.set_allocator = lambda allocator: setattr(cuda, "current", allocator)
    library = FakeLibrary()
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setattr(_library, "library", lambda: library)
    monkeypatch.setattr(vram_cupy, "library", lambda: library)
    for name, value in (("allocator", None), ("before", None), ("is_enabled", False)):
        monkeypatch.setattr(vram_cupy._State, name, value)
    return SimpleNamespace(cuda=cuda, library=library, stream=stream)


def test_blocks_go_out_and_come_back(fake: SimpleNamespace) -> None:
    vram.cupy.enable()
    assert vram.cupy.is_enabled()
    address = fake.cuda.current(64)
    assert address == 64101
    assert fake.library.calls == [("alloc", 101, 64, 77)]
    fake.cuda.current.__self__.functions[1](address, 1)
    assert fake.library.calls[1:] == [("free", 101, 64101)]
    vram.cupy.forget_stream(SimpleNamespace(ptr=77))
    assert fake.library.calls[2:] == [("forget", 100, 77), ("forget", 101, 77)]
    vram.cupy.disable()
    assert fake.cuda.current == "cupy's own"
    assert not vram.cupy.is_enabled()


def test_out_of_memory_is_cupys_error_with_our_reasons(fake: SimpleNamespace) -> None:
    vram.cupy.enable()
    with pytest.raises(FakeCupyError) as raised:
        fake.cuda.current(501)
    assert raised.value.args == (501, 4096)
    assert str(raised.value.__cause__) == "all of it is in use"


def test_without_a_device_or_cupy(fake: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.library.missing_device = 0
    with pytest.raises(vram.VramError, match="no pool on device 0: no such device"):
        vram.cupy.enable()
    assert fake.cuda.current == "cupy's own"
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(vram.VramError, match="cupy can't be imported"):
        vram.cupy.enable()


def test_the_per_thread_default_stream_is_refused_in_words(fake: SimpleNamespace) -> None:
    vram.cupy.enable()
    fake.stream.ptr = 2
    fake.library.vram_last_error = lambda: b"expected a stream of its own, found the per-thread default stream"
    with pytest.raises(vram.VramError, match=r"64 bytes on device 1: expected .* found the per-thread default stream"):
        fake.cuda.current(64)


def test_a_stream_that_is_not_forgotten_says_so(fake: SimpleNamespace) -> None:
    vram.cupy.enable()
    fake.library.forgets = 8
    with pytest.raises(vram.VramError, match="stream 0x4d is not forgotten: status 8"):
        vram.cupy.forget_stream(SimpleNamespace(ptr=77))


def test_the_pool_does_not_wait_while_the_current_stream_is_captured(fake: SimpleNamespace) -> None:
    vram.cupy.enable()
    fake.stream.ptr = 88
    fake.cuda.current(64)
    assert fake.library.calls == [("begin capture", 101), ("alloc", 101, 64, 88), ("end capture", 101)]

    def refused(_stream: int) -> bool:
        raise RuntimeError("cudaErrorStreamCaptureImplicit: of the default stream, while a blocking one is captured")

    fake.library.calls.clear()
    fake.cuda.runtime.streamIsCapturing = refused
    fake.stream.ptr = 0
    fake.cuda.current(64)
    assert [call[0] for call in fake.library.calls] == ["begin capture", "alloc", "end capture"]


def test_stats_are_the_pools(fake: SimpleNamespace) -> None:
    fake.library.vram_pool_close = lambda _pool: _prototypes.OK
    stats = vram.stats(device=2)
    assert (stats.device, stats.reserved_bytes.current, stats.num_ooms) == (2, 4096, 0)

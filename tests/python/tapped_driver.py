"""Programs that call the driver of versioned_driver.cpp by ctypes; test_driver_tap.py runs them under `vram run --record`."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

MIB = 1 << 20
driver = ctypes.CDLL("libcuda.so.1")


class Properties(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location_type", c_int),
        ("location", c_int),
        ("security", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


def use(device: int | None) -> None:
    assert driver.cuCtxSetCurrent(c_void_p(0 if device is None else device + 1)) == 0


def allocate(name: str, size: int, *others: object) -> c_uint64:
    address = c_uint64()
    assert getattr(driver, name)(byref(address), c_size_t(size), *others) == 0
    return address


def make_handle(device: int | None) -> c_uint64:
    """2 MiB of a device, or of the host."""
    handle = c_uint64()
    properties = Properties(1, 0, 1 if device is not None else 3, device or 0)
    assert driver.cuMemCreate(byref(handle), c_size_t(2 * MIB), byref(properties), c_uint64(0)) == 0
    return handle


def map_handle(address: int, handle: c_uint64) -> None:
    assert driver.cuMemMap(c_uint64(address), c_size_t(2 * MIB), c_size_t(0), handle, c_uint64(0)) == 0


def map_memory(address: int, device: int | None) -> None:
    map_handle(address, make_handle(device))


def unmap_memory(address: int, size: int) -> None:
    assert driver.cuMemUnmap(c_uint64(address), c_size_t(size)) == 0


def frees_from_another_context() -> None:
    use(0)
    blocks = [allocate("cuMemAlloc_v2", size * MIB) for size in (1, 2)]
    use(1)
    assert driver.cuMemFree_v2(blocks[0]) == 0
    use(None)
    assert driver.cuMemFree_v2(blocks[1]) == 0


def releases_that_fail() -> None:
    use(0)
    block = allocate("cuMemAlloc_v2", MIB)
    map_memory(1 << 40, 0)
    driver.break_device(1)
    assert driver.cuMemFree_v2(block) != 0
    assert driver.cuMemUnmap(c_uint64(1 << 40), c_size_t(2 * MIB)) != 0
    driver.break_device(0)
    assert driver.cuMemFree_v2(block) == 0


def streams_and_pools_of_other_devices() -> None:
    use(0)
    stream, other_stream = c_void_p(16), c_void_p(32)
    pool, pool_of_host = c_void_p(2), c_void_p(9)
    block = allocate("cuMemAllocAsync", MIB, other_stream)
    assert driver.cuMemFreeAsync(block, other_stream) == 0
    block = allocate("cuMemAllocFromPoolAsync", 2 * MIB, pool, stream)
    assert driver.cuMemFreeAsync(block, stream) == 0
    block = allocate("cuMemAllocFromPoolAsync", 3 * MIB, pool_of_host, stream)
    assert driver.cuMemFreeAsync(block, stream) == 0
    assert driver.cuMemAllocAsync(byref(c_uint64()), c_size_t(1 << 40), other_stream) == 2


def mappings_of_handles() -> None:
    use(0)
    map_memory(1 << 40, 1)
    use(None)
    unmap_memory(1 << 40, 2 * MIB)
    map_memory(1 << 40, None)
    unmap_memory(1 << 40, 2 * MIB)


def one_unmap_of_several_mappings() -> None:
    use(0)
    for number, device in enumerate((0, 1, None, 0)):
        map_memory((1 << 40) + number * 2 * MIB, device)
    unmap_memory(1 << 40, 8 * MIB)


def a_handle_at_several_addresses() -> None:
    use(0)
    first, second = 1 << 40, 2 << 40
    handle = make_handle(1)
    for address in (first, second, second + 2 * MIB):
        map_handle(address, handle)
    unmap_memory(second + 2 * MIB, 2 * MIB)
    unmap_memory(first, 2 * MIB)
    unmap_memory(second, 2 * MIB)


def a_handle_whose_number_is_used_again() -> None:
    use(0)
    handle = make_handle(0)
    for number in range(2):
        map_handle((1 << 40) + number * 2 * MIB, handle)
    driver.reuse_handle(handle)
    map_handle(2 << 40, make_handle(0))
    unmap_memory(1 << 40, 4 * MIB)
    unmap_memory(2 << 40, 2 * MIB)


def many_blocks() -> None:
    """In an order of their own, of two devices, and freed from either's context."""
    order = random.Random(15)
    blocks: list[c_uint64] = []
    for number in range(20_000):
        use(number % 2)
        blocks.append(allocate("cuMemAlloc_v2", 512 * order.randrange(1, 100)))
        while len(blocks) > (0 if number == 19_999 else order.choice([500, 3000])):
            place = order.randrange(len(blocks))
            blocks[place], blocks[-1] = blocks[-1], blocks[place]
            assert driver.cuMemFree_v2(blocks.pop()) == 0


def plain_calls() -> None:
    use(1)
    for size in range(1, 5):
        allocate("cuMemAlloc_v2", size * MIB)


class Getter:
    """cuGetProcAddress of a version, always called with the arguments of the newer one: the older one has no status."""

    def __init__(self, address: int, version: int) -> None:
        self.version = version
        self._call = ctypes.CFUNCTYPE(c_int, ctypes.c_char_p, c_void_p, c_int, c_uint64, c_void_p)(address)

    def find(self, name: str, version: int) -> int:
        function = c_void_p()
        status = c_int(42)
        assert self._call(name.encode(), byref(function), version, 0, byref(status)) == 0
        assert status.value == (42 if self.version < 12000 else 0), f"the status is {status.value}"
        assert function.value is not None
        return function.value

    def of(self, version: int) -> Getter:
        return Getter(self.find("cuGetProcAddress", version), version)


def versions_of_the_look_up() -> None:
    use(1)
    name, order = sys.argv[2], [int(version) for version in sys.argv[3].split(",")]
    address = ctypes.cast(getattr(driver, name), c_void_p).value
    assert address is not None
    first = Getter(address, 12000 if name.endswith("_v2") else 11030)
    getters = [first.of(version) for version in order]
    for get in (*getters, first, *reversed(getters)):
        block = c_uint64()
        alloc = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(get.of(order[0]).find("cuMemAlloc", 12000))
        assert alloc(byref(block), MIB) == 0
        assert block.value >> 40 == 0x71, hex(block.value)
        short = (ctypes.c_uint32 * 2)(0, 42)
        old = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.c_uint)(get.find("cuMemAlloc", 3000))
        assert old(short, 17) == 0
        assert list(short) == [17, 42]
        new = ctypes.CFUNCTYPE(c_int, c_int, c_size_t, c_void_p)(get.find("cuMemAlloc", 14000))
        assert new(1, MIB, byref(block)) == 0


def frees_while_another_allocates() -> None:
    signal.alarm(20)
    library, with_gil = ctypes.CDLL(sys.argv[2]), ctypes.PyDLL(sys.argv[2])
    use(0)
    block = allocate("cuMemAlloc_v2", MIB)
    results = []

    def work() -> None:
        use(0)
        results.append(library.slow_allocate(byref(c_uint64()), c_size_t(2 * MIB)))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.1)
    assert with_gil.deallocate(block) == 0
    thread.join(timeout=120)
    assert results == [0]
    allocate("cuMemAlloc_v2", 3 * MIB)


def allocates_often() -> None:
    use(0)
    for _ in range(100):
        assert driver.cuMemFree_v2(allocate("cuMemAlloc_v2", MIB)) == 0


def threads_that_allocate() -> None:
    threads = [threading.Thread(target=allocates_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)


def a_child_of_a_fork() -> None:
    signal.alarm(20)
    use(0)
    allocate("cuMemAlloc_v2", MIB)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        allocate("cuMemAlloc_v2", 2 * MIB)
    else:
        assert os.waitpid(child, 0) == (child, 0)


def a_file_with_an_odd_name() -> None:
    use(0)
    exec(compile("allocate('cuMemAlloc_v2', MIB)", "odd\udcff.py", "exec"))


def an_exception_that_is_set() -> None:
    use(0)
    python = ctypes.pythonapi
    set_error = ctypes.cast(python.PyErr_SetString, c_void_p)
    try:
        ctypes.PyDLL(sys.argv[2]).allocate_with_error(
            byref(c_uint64()), c_size_t(MIB), set_error, ctypes.py_object(KeyError)
        )
    except KeyError as error:
        assert error.args == ("still set",)  # noqa: PT017
    else:
        raise AssertionError("the exception is gone")


if __name__ == "__main__":
    globals()[sys.argv[1]]()

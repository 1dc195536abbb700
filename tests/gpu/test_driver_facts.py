"""Properties of the driver that the tap (src/tap) relies on and that are not documented."""

import ctypes
from collections.abc import Iterator
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

import pytest

MIB = 1 << 20
FORMS = [  # as in src/tap/calls.cpp
    ("cuMemAlloc", 3020),
    ("cuMemAllocPitch", 3020),
    ("cuMemAllocManaged", 6000),
    ("cuMemAllocAsync", 11020),
    ("cuMemAllocFromPoolAsync", 11020),
    ("cuMemFree", 3020),
    ("cuMemFreeAsync", 11020),
    ("cuMemMap", 10020),
    ("cuMemUnmap", 10020),
    ("cuGetProcAddress", 12000),
]
MEMORY_TYPE, DEVICE_ORDINAL = 2, 9
HOST, DEVICE = 1, 2  # types of memory


class Properties(ctypes.Structure):
    """CUmemAllocationProp; CUmemPoolProps begins the same"""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location_type", c_int),
        ("location", c_int),
        ("rest", c_uint64 * 9),
    )


@pytest.fixture
def driver() -> Iterator[Any]:
    """The driver, with the first device's context."""
    loaded = ctypes.CDLL("libcuda.so.1")
    context = c_void_p()
    assert loaded.cuInit(0) == 0
    assert loaded.cuDevicePrimaryCtxRetain(byref(context), 0) == 0
    assert loaded.cuCtxPushCurrent_v2(context) == 0
    yield loaded
    assert loaded.cuCtxPopCurrent_v2(byref(context)) == 0
    assert loaded.cuDevicePrimaryCtxRelease_v2(0) == 0


def find(driver: Any, name: str, version: int, flags: int = 0) -> int | None:
    function = c_void_p()
    assert driver.cuGetProcAddress_v2(name.encode(), byref(function), version, c_uint64(flags), None) == 0
    return function.value


def attribute(driver: Any, which: int, address: c_uint64) -> int:
    value = c_int(-77)
    assert driver.cuPointerGetAttribute(byref(value), which, address) == 0
    return value.value


@pytest.mark.parametrize("flags", [0, 2], ids=["plain", "per thread"])
@pytest.mark.parametrize(("name", "version"), FORMS)
def test_a_form_is_one_function_for_all_versions_that_give_it(driver: Any, name: str, version: int, flags: int) -> None:
    newest = c_int()
    assert driver.cuDriverGetVersion(byref(newest)) == 0
    versions = [asked for asked in (11080, 12000, 12080, newest.value) if version <= asked <= newest.value]
    assert {find(driver, name, asked, flags) for asked in versions} == {find(driver, name, version, flags)}


def test_older_versions_have_older_forms(driver: Any) -> None:
    assert find(driver, "cuGetProcAddress", 11080) == ctypes.cast(driver.cuGetProcAddress, c_void_p).value
    assert find(driver, "cuGetProcAddress", 11080) != find(driver, "cuGetProcAddress", 12000)
    assert find(driver, "cuMemAlloc", 3000) != find(driver, "cuMemAlloc", 3020)


def test_a_block_is_freed_without_a_context(driver: Any) -> None:
    address, context = c_uint64(), c_void_p()
    assert driver.cuMemAlloc_v2(byref(address), c_size_t(MIB)) == 0
    assert driver.cuCtxPopCurrent_v2(byref(context)) == 0
    try:
        assert attribute(driver, DEVICE_ORDINAL, address) == 0
        assert driver.cuMemFree_v2(address) == 0
    finally:
        assert driver.cuCtxPushCurrent_v2(context) == 0


@pytest.mark.parametrize(("location_type", "expected"), [(1, DEVICE), (3, HOST)], ids=["device", "host"])
def test_blocks_of_pools_have_a_type_of_memory(driver: Any, location_type: int, expected: int) -> None:
    pool, address, stream = c_void_p(), c_uint64(), c_void_p(0)
    if driver.cuMemPoolCreate(byref(pool), byref(Properties(1, 0, location_type, 0))) != 0:
        pytest.skip("this driver has no such pools")
    assert driver.cuMemAllocFromPoolAsync(byref(address), c_size_t(MIB), pool, stream) == 0
    assert attribute(driver, MEMORY_TYPE, address) == expected
    assert attribute(driver, DEVICE_ORDINAL, address) == 0
    assert driver.cuMemFreeAsync(address, stream) == 0
    assert driver.cuStreamSynchronize(stream) == 0
    assert driver.cuMemPoolDestroy(pool) == 0


@pytest.mark.parametrize("location_type", [1, 3], ids=["device", "host"])
def test_handles_tell_where_their_memory_is(driver: Any, location_type: int) -> None:
    handle, found = c_uint64(), Properties()
    if (
        driver.cuMemCreate(byref(handle), c_size_t(2 * MIB), byref(Properties(1, 0, location_type, 0)), c_uint64(0))
        != 0
    ):
        pytest.skip("this driver makes no such handles")
    assert driver.cuMemGetAllocationPropertiesFromHandle(byref(found), handle) == 0
    assert (found.location_type, found.location) == (location_type, 0)
    assert driver.cuMemRelease(handle) == 0

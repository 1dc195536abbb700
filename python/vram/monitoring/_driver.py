"""The driver's figures of this process: all that it has on a GPU, whichever library allocated it, with its contexts.

Asks the driver only about devices on which this process has a CUDA context, because everything else would load the
driver for nothing. The connection to NVIDIA's management library, or to the kernel's files, stays open.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from vram._error import VramError
from vram._library import library
from vram._prototypes import OK
from vram.monitoring._memory import Gpu, read_gpu

_FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the inode of the machine's own
_MAX_DEVICES = 64  # that libcuda is asked about


@dataclass(frozen=True)
class DriverUse:
    """One device, in bytes. None: the driver does not report it, or this process cannot tell which entry is its own."""

    process_bytes: int | None = None  # of this process
    device_bytes: int | None = None  # used on the device, by all processes


UNKNOWN_USE = DriverUse()


class _Sampler:
    """The open connection; a fork opens its own."""

    lock = threading.Lock()
    pid = 0
    handle: ctypes.c_void_p | None = None
    index_of: ClassVar[dict[str, int]] = {}  # by PCI address

    @classmethod
    def of_this_process(cls) -> ctypes.c_void_p | None:
        """Return the connection, or None where there is nothing to connect to."""
        with cls.lock:
            if cls.pid != os.getpid():
                cls.pid, cls.handle, cls.index_of = os.getpid(), None, {}
                handle = ctypes.c_void_p()
                if library().vram_sampler_open(None, ctypes.byref(handle)) == OK:
                    gpus = [read_gpu(handle, index) for index in range(library().vram_sampler_device_count(handle))]
                    cls.handle, cls.index_of = handle, {gpu.pci_id: gpu.index for gpu in gpus if gpu.pci_id}
            return cls.handle


def _renew_lock() -> None:  # another thread may have held it at the fork
    _Sampler.lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class _Cuda:
    """CUDA's driver library, once the program has loaded it. To search for it takes far longer than a region."""

    library: ctypes.CDLL | None = None
    loads = -1  # at the last search


def _cuda() -> ctypes.CDLL | None:
    """Return CUDA's driver library if the program has loaded it."""
    if _Cuda.library is None:
        with suppress(OSError, VramError):
            # Python's own call of dl_iterate_phdr would hold a lock of the loader while it waits for the GIL.
            loads = library().vram_count_loaded_libraries()
            if loads != _Cuda.loads:
                _Cuda.loads = loads
                _Cuda.library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    return _Cuda.library


def devices_in_use() -> list[int]:
    """Return the devices, numbered as CUDA numbers them, on which this process has a context. Creates none."""
    cuda = _cuda()
    if cuda is None or not hasattr(cuda, "cuDevicePrimaryCtxGetState"):
        return []
    flags, is_active, found = ctypes.c_uint(), ctypes.c_int(), []
    for device in range(_MAX_DEVICES):
        if cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(is_active)) != 0:
            break  # no such device, or CUDA is not initialized
        if is_active.value:
            found.append(device)
    return found


def use_of(device: int, pci_id: str | None = None) -> DriverUse:
    """Return the driver's figures of a device that this process uses, by CUDA's number or its PCI address."""
    try:
        sampler = _Sampler.of_this_process()
        index = _Sampler.index_of.get(pci_id or _pci_id_of(device) or "")
        if sampler is None or index is None:
            return UNKNOWN_USE
        gpu = read_gpu(sampler, index)
        return DriverUse(_own_bytes(gpu), gpu.used_bytes)
    except (VramError, OSError):  # no library of vram, or no /proc: the other figures do not need them
        return UNKNOWN_USE


def _pci_id_of(device: int) -> str | None:
    cuda = _cuda()
    text = ctypes.create_string_buffer(32)
    if cuda is None or cuda.cuDeviceGetPCIBusId(text, len(text), device) != 0:
        return None
    return text.value.decode(errors="replace").lower()


def _own_bytes(gpu: Gpu) -> int | None:
    """Return this process's bytes. In a container the driver's pids are the host's: only a single one is known to be ours."""
    processes = gpu.processes or ()
    pids = {process.pid for process in processes}
    is_host = os.stat("/proc/self/ns/pid").st_ino == _FIRST_PID_NAMESPACE
    own = os.getpid() if is_host else next(iter(pids)) if len(pids) == 1 else None
    sizes = [process.used_bytes for process in processes if process.pid == own]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None

"""``vram.memory()``: the GPUs of this machine and the processes that use them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from vram import _prototypes
from vram._error import VramError
from vram._library import last_error, library, sized, status_text
from vram._prototypes import NO_INSTANCE, OK, UNKNOWN, DeviceInfo, ProcessInfo
from vram._sizes import format_size
from vram._texts import columns_of, tr

_VENDORS = {
    _prototypes.VENDOR_NVIDIA: "nvidia",
    _prototypes.VENDOR_AMD: "amd",
    _prototypes.VENDOR_INTEL: "intel",
}


@dataclass(frozen=True)
class GpuProcess:
    """A process on one GPU, in bytes. None: the driver does not report the value.

    ``pid`` is the host's and may be unknown in a container. ``host_bytes`` is the host's memory that the GPU uses for the
    process: on an integrated GPU, where its tensors are.
    """

    pid: int
    used_bytes: int | None = None
    is_compute: bool = False
    is_graphics: bool = False
    gpu_instance: int | None = None  # of MIG
    compute_instance: int | None = None
    host_bytes: int | None = None


@dataclass(frozen=True)
class Gpu:
    """One GPU, in bytes and percent. None: unknown, which is not zero.

    If all four are known, total = used + reserved + free. If ``reserved_bytes`` (reserved by the driver for itself) is
    None, ``used_bytes`` includes it. ``busy_percent`` is the share of time in which a kernel ran, in the driver's last
    sample period. ``host_total_bytes`` and ``host_used_bytes`` are the host's memory that the GPU may use as its own
    (AMD's GTT). ``processes`` is None if the driver does not report them. ``error`` is why the GPU reports nothing; one
    that ``is_asleep`` is powered down, and vram does not wake it. ``vendor`` is "nvidia", "amd" or "intel".

    >>> Gpu(index=0, used_bytes=10, processes=(GpuProcess(pid=7, used_bytes=4),)).unattributed_bytes
    6
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    busy_percent: int | None = None
    memory_busy_percent: int | None = None
    processes: tuple[GpuProcess, ...] | None = None
    error: str | None = None
    vendor: str | None = None
    pci_id: str | None = None
    is_asleep: bool = False
    host_total_bytes: int | None = None
    host_used_bytes: int | None = None

    @property
    def unattributed_bytes(self) -> int | None:
        """Used bytes of no process that the driver lists; None if one of the figures is unknown."""
        if self.used_bytes is None or self.processes is None:
            return None
        used = [process.used_bytes for process in self.processes]
        known = [size for size in used if size is not None]
        return max(self.used_bytes - sum(known), 0) if len(known) == len(used) else None


@dataclass(frozen=True)
class Memory:
    """All GPUs at one moment; ``str()`` is a table. ``unknown_reason`` is why there are none, or why NVIDIA's are missing."""

    gpus: tuple[Gpu, ...]
    unknown_reason: str | None = None

    def __str__(self) -> str:
        if not self.gpus:
            return tr("no GPU known: {}").format(self.unknown_reason)
        rows: list[tuple[str, ...]] = [
            ("GPU", tr("name"), tr("used"), tr("free"), tr("reserved"), tr("total"), tr("busy"))
        ]
        for gpu in self.gpus:
            sizes = (gpu.used_bytes, gpu.free_bytes, gpu.reserved_bytes, gpu.total_bytes)
            busy = "?" if gpu.busy_percent is None else f"{gpu.busy_percent} %"
            name = gpu.error or (gpu.name or "?") + (tr(" (asleep)") if gpu.is_asleep else "")
            rows.append((str(gpu.index), name, *map(_size, sizes), busy))
        lines = _table(rows) + [line for gpu in self.gpus for line in _process_lines(gpu)]
        return "\n".join(
            lines + ([tr("NVIDIA's GPUs unknown: {}").format(self.unknown_reason)] if self.unknown_reason else [])
        )


def memory() -> Memory:
    """Return the memory of each GPU of this machine and of its processes, in bytes; unknown figures are None.

    The GPUs and their numbers are those of ``vram status``: NVIDIA's by the driver's management library (``VRAM_NVML``
    names another file), then AMD's and Intel's by the kernel's files, with the names of AMD's library if it is
    installed; a library that does not answer is waited for a quarter of a second. Opens them and closes them again, which
    takes some milliseconds, and longer if no other process has loaded the driver. If there are no GPUs, ``unknown_reason``
    names the missing file. Any thread may call this, also after a fork.

    Raises:
        VramError: vram's own library is missing.

    >>> import vram
    >>> machine = vram.memory()
    >>> all(gpu.used_bytes is None or gpu.used_bytes <= gpu.total_bytes for gpu in machine.gpus)
    True
    >>> print(machine)  # doctest: +ELLIPSIS
    no GPU known: expected NVIDIA's management library as libnvidia-ml.so.1, ...
    """
    sampler = ctypes.c_void_p()
    if library().vram_sampler_open(None, ctypes.byref(sampler)) != OK:
        return Memory((), last_error())
    try:
        missing = ctypes.create_string_buffer(4096)
        library().vram_sampler_missing(sampler, missing, len(missing))
        gpus = tuple(read_gpu(sampler, index) for index in range(library().vram_sampler_device_count(sampler)))
        return Memory(gpus, _text(missing.value) or (None if gpus else tr("the driver lists none")))
    finally:
        library().vram_sampler_close(sampler)


def read_gpu(sampler: ctypes.c_void_p, index: int) -> Gpu:
    """Return a GPU and its processes by an open sampler.

    Raises:
        VramError: The sampler has no such GPU.
    """
    info = sized(DeviceInfo)
    entries = (ProcessInfo * 1024)()  # more processes than one GPU can have
    count = ctypes.c_size_t(len(entries))
    status = library().vram_sampler_read_device(sampler, index, ctypes.byref(info), entries, ctypes.byref(count))
    if status != OK:
        raise VramError(f"GPU {index}: {status_text(status)}")
    return Gpu(
        index=index,
        name=_text(info.name),
        uuid=_text(info.uuid),
        total_bytes=_known(info.total_bytes),
        used_bytes=_known(info.used_bytes),
        free_bytes=_known(info.free_bytes),
        reserved_bytes=_known(info.reserved_bytes),
        busy_percent=_known(info.busy_percent),
        memory_busy_percent=_known(info.memory_busy_percent),
        processes=None if info.process_count == UNKNOWN else tuple(map(_process, entries[: count.value])),
        error=_text(info.error),
        vendor=_VENDORS.get(info.vendor),
        pci_id=_text(info.pci_id),
        is_asleep=bool(info.is_asleep),
        host_total_bytes=_known(info.host_total_bytes),
        host_used_bytes=_known(info.host_used_bytes),
    )


def _process(entry: ProcessInfo) -> GpuProcess:
    return GpuProcess(
        pid=entry.pid,
        used_bytes=_known(entry.used_bytes),
        is_compute=bool(entry.kinds & _prototypes.PROCESS_COMPUTE),
        is_graphics=bool(entry.kinds & _prototypes.PROCESS_GRAPHICS),
        gpu_instance=_known(entry.gpu_instance, NO_INSTANCE),
        compute_instance=_known(entry.compute_instance, NO_INSTANCE),
        host_bytes=_known(entry.host_bytes),
    )


def _known(figure: int, unknown: int = UNKNOWN) -> int | None:
    return None if figure == unknown else figure


def _text(text: bytes) -> str | None:
    return text.decode(errors="replace") or None


def _size(size_bytes: int | None) -> str:
    return "?" if size_bytes is None else format_size(size_bytes)


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Columns, the numbers to the right."""
    widths = [max(map(columns_of, column)) for column in zip(*rows)]
    return [
        "  ".join(_padded(cell, width, is_left=i == 1) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    ]


def _padded(cell: str, width: int, *, is_left: bool) -> str:
    spaces = " " * (width - columns_of(cell))
    return cell + spaces if is_left else spaces + cell


def _use(process: GpuProcess) -> str:
    host = tr(", {} of the host").format(format_size(process.host_bytes)) if process.host_bytes else ""
    return _size(process.used_bytes) + host


def _process_lines(gpu: Gpu) -> list[str]:
    if gpu.processes is None:
        return [tr("GPU {}: processes unknown").format(gpu.index)]
    lines = [
        tr("GPU {}: process {} uses {}").format(gpu.index, process.pid, _use(process)) for process in gpu.processes
    ]
    if gpu.processes and gpu.unattributed_bytes:
        lines.append(
            tr("GPU {}: {} used by no process that the driver lists").format(gpu.index, _size(gpu.unattributed_bytes))
        )
    return lines

"""vram.monitor over PyTorch's real counters, and vram.memory() beside what CUDA says."""

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

MIB = 1 << 20


def block(size: int) -> Any:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def spike(size: int) -> None:
    block(size)  # and freed at once


def test_peaks_of_nested_regions_and_of_the_program(pool: Any) -> None:
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    spike(400 * MIB)
    with pool.monitor("outer", synchronize=True) as outer:
        kept = block(10 * MIB)
        spike(90 * MIB)
        with pool.monitor("inner") as inner:
            spike(40 * MIB)
    del kept
    assert outer.result.devices[0].allocated_delta_bytes == 10 * MIB
    assert outer.result.peak_bytes - before == 100 * MIB
    assert inner.result.peak_bytes - before == 50 * MIB
    assert pool.peaks().allocated_bytes - before == 400 * MIB


def test_the_machine_is_as_cuda_says(pool: Any) -> None:
    held = block(1 << 30)
    free, total = torch.cuda.mem_get_info()
    uuid = str(torch.cuda.get_device_properties(0).uuid)
    (gpu,) = [gpu for gpu in pool.memory().gpus if gpu.uuid and uuid in gpu.uuid]
    assert abs(gpu.free_bytes - free) < 64 * MIB  # another process may come and go
    assert gpu.total_bytes >= total
    assert held.numel() <= gpu.used_bytes <= gpu.total_bytes
    known = [size for size in (gpu.used_bytes, gpu.reserved_bytes, gpu.free_bytes) if size is not None]
    assert abs(gpu.total_bytes - sum(known)) < 2 * MIB

"""vram.summary(): with the segments of real snapshots, with made-up ones, and with real PyTorch without a GPU."""

from __future__ import annotations

import dataclasses
import json
import lzma
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch  # noqa: F401  the program has imported it

import vram
from vram._frameworks._torch import TorchFramework
from vram.monitoring import _driver, _peaks, _summary

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
SNAPSHOTS = ["demo/leak.stacks.pickle.xz", "tests/data/middle/unet_multiscale.mid.exp.pickle.xz"]


def segment(*blocks: tuple[int, str], kind: str = "large", **others: Any) -> dict[str, Any]:
    """Make a segment of PyTorch's snapshots, of blocks with their MiB and state."""
    made = [{"size": size * MIB, "state": state} for size, state in blocks]
    total = sum(size for size, _ in blocks) * MIB
    used = sum(size for size, state in blocks if state == "active_allocated") * MIB
    facts = {"device": 0, "stream": 0, "segment_type": kind, "total_size": total, "allocated_size": used}
    return {**facts, "blocks": made, **others}


class Torch:
    """A PyTorch that uses GPU 0, with these counters and segments."""

    def __init__(self, segments: list[dict[str, Any]], **stats: int) -> None:
        def memory_snapshot(include_traces: bool = True) -> list[dict[str, Any]]:
            assert not include_traces
            return segments

        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 1,
            current_device=lambda: 0,
            memory_stats=lambda _device: stats,
            memory_snapshot=memory_snapshot,
            get_device_properties=lambda _device: SimpleNamespace(),
        )
        self._C = SimpleNamespace()


def summary_of(monkeypatch: pytest.MonkeyPatch, fake: Torch, **arguments: Any) -> vram.AllocatorSummary:
    framework = TorchFramework(fake)
    for module in (_summary, _peaks):
        monkeypatch.setattr(module, "used_framework", lambda: framework)
    monkeypatch.setattr(_peaks, "_counters", _peaks._Counters())
    return vram.summary(**arguments)


def sums(segments: list[dict[str, Any]]) -> dict[str, int]:
    return {
        "allocated_bytes.all.current": sum(each["allocated_size"] for each in segments),
        "reserved_bytes.all.current": sum(each["total_size"] for each in segments),
    }


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_the_parts_of_real_snapshots_add_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = pickle.loads(lzma.decompress((ROOT / name).read_bytes()))["segments"]
    found = summary_of(monkeypatch, Torch(segments, **sums(segments)))
    assert sum(each.reserved_bytes for each in found.streams) == found.reserved_bytes
    assert sum(each.allocated_bytes for each in found.streams) == found.allocated_bytes
    assert found.reserved_bytes is not None
    assert found.allocated_bytes is not None
    assert sum(each.segments for each in found.streams) == len(segments)
    free = sum(each.free_bytes for each in found.streams)
    assert 0 < (found.largest_free_bytes or 0) <= free == found.reserved_bytes - found.allocated_bytes
    assert 0 < (found.releasable_bytes or 0) < free
    assert "stream  pool" in str(found)


def test_only_segments_without_a_block_in_use_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [
        segment((20, "inactive")),
        segment((12, "inactive"), (8, "active_allocated")),
        segment((20, "active_pending_free"), stream=1),
        segment((20, "inactive"), stream=1, segment_pool_id=(0, 1)),
        segment((2, "inactive"), kind="small"),
        segment((90, "inactive"), device=1),
    ]
    found = summary_of(monkeypatch, Torch(segments))
    assert [
        (each.stream, each.pool, each.releasable_bytes // MIB, each.largest_free_bytes // MIB) for each in found.streams
    ] == [
        (0, "large", 20, 20),
        (0, "small", 2, 2),
        (1, "large", 0, 0),
        (1, "private large", 0, 20),
    ]
    assert found.releasable_bytes == 22 * MIB


def test_of_expandable_segments_whole_pages_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [
        segment((10, "active_allocated"), (35, "inactive"), (15, "active_allocated"), is_expandable=True),
        segment((1, "active_allocated"), (5, "inactive"), kind="small", is_expandable=True),
    ]
    found = summary_of(monkeypatch, Torch(segments))
    assert [each.releasable_bytes // MIB for each in found.streams] == [20, 4]  # pages 20 to 40; 2 to 6


def test_counts_and_rounding_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {
        "allocated_bytes.all.current": 6 << 30,
        "allocated_bytes.all.peak": 7 << 30,
        "requested_bytes.all.current": 5 << 30,
        "reserved_bytes.all.current": 8 << 30,
        "reserved_bytes.all.peak": 9 << 30,
        "num_alloc_retries": 3,
        "num_ooms": 1,
        "num_device_alloc": 1412,
        "num_device_free": 57,
    }
    monkeypatch.setattr(_driver, "use_of", lambda *_: _driver.DriverUse(process_bytes=9 << 30))
    found = summary_of(monkeypatch, Torch([], **stats), streams=False)
    assert str(found).splitlines() == [
        "GPU 0: PyTorch's allocator in this process",
        "  allocated     6 GiB, at its peak 7 GiB",
        "  requested     5 GiB; 1 GiB more are allocated, by rounding",
        "  reserved      8 GiB, at its peak 9 GiB",
        "  unused        2 GiB (25% of reserved)",
        "  retries       3 (the driver had no memory, so the cache was emptied)",
        "  OOM errors    1",
        "  driver calls  1,412 for memory, 57 to give it back",
        "  the driver    counts 9 GiB for this process, 1 GiB of it outside of PyTorch's allocator",
    ]
    assert json.loads(json.dumps(dataclasses.asdict(found)))["num_alloc_retries"] == 3


def test_what_an_old_version_does_not_count_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = summary_of(monkeypatch, Torch([], **{"reserved_bytes.all.current": 10}))
    assert (found.requested_bytes, found.num_ooms, found.releasable_bytes, found.process_bytes) == (None,) * 4
    assert "OOM" not in str(found)
    assert "retries" not in str(found)


def test_a_device_that_the_program_does_not_use_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = summary_of(monkeypatch, Torch([]), device=3)
    assert (found.device, found.allocated_bytes, found.unknown_reason) == (3, None, "PyTorch uses no memory of GPU 3")


def test_real_pytorch_without_a_gpu_says_so() -> None:
    assert str(vram.summary()) == "allocator unknown: PyTorch uses no GPU"


def test_without_pytorch_it_says_so() -> None:
    body = f"import sys; sys.path.insert(0, {str(ROOT / 'python')!r}); import vram; print(vram.summary())"
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "allocator unknown: PyTorch is not imported\n"

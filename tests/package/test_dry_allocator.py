"""How an allocator is stated, and what PyTorch's variables say about it."""

from __future__ import annotations

import subprocess

import pytest

import vram
from vram.dry import _allocator, _least


@pytest.mark.parametrize(
    ("stated", "allocator"),
    [
        ("", "torch"),
        ("expandable_segments:True", "torch:expandable_segments:True"),
        ("backend:native", "torch"),
        ("backend: native, max_split_size_mb:64", "torch: max_split_size_mb:64"),
        ("backend:cudaMallocAsync", "cuda_async"),
        ("pinned_use_background_threads:True,expandable_segments:True,", "torch:expandable_segments:True"),
        ("release_lock_on_cudamalloc:True", "torch"),
        ("roundup_power2_divisions:[256:1,512:2,>:4]", "torch:roundup_power2_divisions:[256:1,512:2,>:4]"),
    ],
)
def test_what_the_environment_states_is_what_replays_take(
    stated: str, allocator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", stated)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    assert _allocator.from_environment() == allocator
    command = [str(vram.program()), "replay", "no.vtrace", "--allocator", allocator]
    assert "no.vtrace" in subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


@pytest.mark.parametrize(
    ("allocator", "is_placed"),
    [
        ("torch", True),
        ("torch:max_split_size_mb=64", True),
        ("torch:expandable_segments=False", True),
        ("torch:expandable_segments=True", False),
        ("torch:expandable_segments:True", False),
        ("torch: expandable_segments = true", False),
        ("torch:roundup_power2_divisions:[256:1,>:4],expandable_segments=1", False),
        ("torch:expandable_segments=True,expandable_segments=False", True),
        ("vram", False),
    ],
)
def test_expandable_segments_are_found_however_they_are_stated(allocator: str, is_placed: bool) -> None:
    assert _least.is_placed_by_driver(allocator) == is_placed
    assert _allocator.expands(allocator) == (allocator != "vram" and not is_placed)

"""Where dry runs place blocks and segments: at the end of the process, with sizes for which there is no room, and from several threads."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import vram
from vram import VramError
from vram.dry import dry_run

_AT_EXIT = """
import atexit

def allocate() -> None:
    for size_bytes in range(20 << 20, 80 << 20, 2 << 20):
        placement.allocate(size_bytes, 0)
    for address in list(placement._blocks):
        placement.free(address)
    placement.empty_cache()
    print(placement.reserved.peak, placement.reserved.now)

atexit.register(allocate)  # before Python registers the end of weak references, so it runs after them

from vram.dry._placement import Placement

placement = Placement(lambda _segment: None, lambda _segment: None)
placement.free(placement.allocate(20 << 20, 0))
"""


def test_memory_is_placed_until_the_process_has_ended() -> None:
    """Functions of atexit allocate, and so do threads that still run."""
    folder = str(Path(vram.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}){_AT_EXIT}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, [str(sum(range(20, 80, 2)) << 20), "0"]), done.stderr


@pytest.mark.parametrize("gibibytes", [1 << 18, 1 << 20, 1 << 32])
def test_a_request_that_no_address_space_has_room_for_is_refused(gibibytes: int, tmp_path: Path) -> None:
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace"):
        kept = torch.empty(1000, device="cuda")
        with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate .* may reserve 16 TiB of GPU 0"):
            torch.empty(gibibytes << 30, dtype=torch.uint8, device="cuda")
        assert kept.device.type == "cuda"
        assert torch.cuda.memory_stats()["num_ooms"] == 1


def test_more_than_any_gpu_has_is_an_error_that_says_so(tmp_path: Path) -> None:
    """As a program that tries sizes until memory runs out, and gets as much."""
    kept = []
    with dry_run(gpu="24GiB", path=tmp_path / "dry.vtrace") as run, contextlib.suppress(torch.OutOfMemoryError):
        while True:
            kept.append(torch.empty(1 << 35, dtype=torch.uint8, device="cuda"))
    assert len(kept) == 512
    with pytest.raises(VramError, match="requests more memory at a time than any GPU has"):
        str(run)

"""Blocks stay with their owner when PyTorch's allocator is exchanged; each case runs in its own process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

PROGRAM = Path(__file__).with_name("programs") / "owners.py"


def result_of(case: str) -> Any:
    done = subprocess.run([sys.executable, PROGRAM, case], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_record_stream_and_empty_cache_reach_the_pool_after_disable() -> None:
    assert result_of("streams_after_disable") == {"pools": True, "adopted": True, "reserved": 0}


def test_blocks_go_back_the_way_they_came_when_caching_is_switched() -> None:
    assert result_of("caching_switch") == {"is_kept": True}


def test_a_child_forked_before_cuda_gives_its_memory_back() -> None:
    assert result_of("fork_before_cuda") == {"reserved": 0}


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_peers_that_copied_before_reach_the_pool() -> None:
    assert result_of("peers_before_enable") == {"is_equal": True}


def test_no_capture_is_broken_while_memory_is_short() -> None:
    found = result_of("captures_under_pressure")
    assert (found["broken"], found["wrong"]) == (0, [])


def test_an_error_that_is_cured_is_not_observed() -> None:
    found = result_of("cured_out_of_memory")
    assert found["observed"] == []
    assert found["bytes"] > 0

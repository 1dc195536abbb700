"""A recording taps a PyTorch only if it has CUDA and there is a driver."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import vram
import vram.torch
from vram.torch import _recording


def no_driver() -> None:
    raise vram.VramError("no CUDA driver on this machine")


@pytest.mark.parametrize(
    ("cuda", "find_driver", "expected"),
    [("13.0", no_driver, []), ("13.0", lambda: None, [True]), (None, lambda: None, [])],
)
def test_it_listens_where_there_may_be_a_gpu(
    cuda: str | None, find_driver: object, expected: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taps: list[bool] = []
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(cuda=cuda)))
    monkeypatch.setattr(vram.torch, "require_driver", find_driver)
    monkeypatch.setattr(_recording, "start_tap", lambda *, stacks: taps.append(stacks))
    with vram.record(tmp_path / "run.vtrace", stacks="python") as recording:
        assert vram.is_recording()
    assert taps == expected
    assert recording.lost == 0

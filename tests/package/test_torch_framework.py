"""What vram asks of PyTorch for cleaning: of the real one without a GPU, and of a stand-in that uses two."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from vram._frameworks import _torch_training, framework_of
from vram._frameworks._torch import TorchFramework
from vram._frameworks._torch_training import TorchTraining

PACKAGE = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class StandInTorch:
    """What TorchFramework asks of a PyTorch that uses two GPUs; notes what is done, in order."""

    class Graph: ...

    def __init__(self) -> None:
        self.done: list[str] = []
        self.capturing = False
        note = self.done.append
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 2,
            is_current_stream_capturing=lambda: self.capturing,
            synchronize=lambda: note("synchronize"),
            CUDAGraph=self.Graph,
            host_memory_stats=lambda: {"allocated_bytes.current": 96, "active_bytes.current": 96},
        )
        plans = [SimpleNamespace(clear=lambda: note("plans 0")), SimpleNamespace(clear=lambda: note("plans 1"))]
        self.backends = SimpleNamespace(cuda=SimpleNamespace(cufft_plan_cache=plans))
        self._C = SimpleNamespace(
            _cuda_clearCublasWorkspaces=lambda: note("cublas"), _host_emptyCache=lambda: note("host")
        )


@pytest.fixture(name="stand_in")
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> StandInTorch:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return StandInTorch()


def test_torch_clears_workspaces_of_all_devices_once_they_are_idle(stand_in: StandInTorch) -> None:
    assert TorchFramework(stand_in).clear_workspaces() is None
    assert stand_in.done == ["synchronize", "cublas", "plans 0", "plans 1"]


def test_torch_keeps_workspaces_that_graphs_write_to(stand_in: StandInTorch) -> None:
    graph = stand_in.Graph()
    assert TorchFramework(stand_in).clear_workspaces() == "CUDA graphs use them"
    del graph
    assert TorchFramework(stand_in).clear_workspaces() is None


def test_torch_keeps_workspaces_where_graphs_may_be_hidden(stand_in: StandInTorch) -> None:
    gc.collect()
    gc.freeze()
    try:
        assert "gc.freeze()" in str(TorchFramework(stand_in).clear_workspaces())
    finally:
        gc.unfreeze()
    assert stand_in.done == []


@pytest.mark.parametrize(("initialized", "answer"), [(False, "None"), (True, "gc.freeze() has hidden")])
def test_objects_frozen_before_cuda_is_initialized_hide_no_graphs(initialized: bool, answer: str) -> None:
    """As CPython 3.12 and later have them from the start."""
    program = f"""
import gc, sys, types
gc.freeze()
cuda = types.SimpleNamespace(is_initialized=lambda: {initialized})
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
import vram
cuda.CUDAGraph = type("CUDAGraph", (), {{}})
from vram._frameworks._torch import TorchFramework
print(TorchFramework(sys.modules.pop("torch"))._graphs())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=PACKAGE, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(answer)


def test_torch_keeps_workspaces_of_compiled_code(stand_in: StandInTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = {"frames": {"ok": 1}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", cast(Any, SimpleNamespace(counters=counters)))
    assert "torch.compile" in str(TorchFramework(stand_in).clear_workspaces())
    assert stand_in.done == []


def test_torch_leaves_a_gpu_alone_that_the_program_has_not_touched(stand_in: StandInTorch) -> None:
    framework = TorchFramework(stand_in)
    assert framework.devices() == [0, 1]  # a PyTorch that does not say
    stand_in._C._cuda_hasPrimaryContext = lambda device: device == 1
    assert framework.devices() == [1]
    framework.clear_workspaces()
    assert stand_in.done == ["synchronize", "cublas", "plans 1"]
    stand_in.cuda.is_initialized = lambda: False
    assert framework.devices() == []


@pytest.mark.parametrize(
    ("free", "reserved", "fraction", "limit", "expected"),
    [
        (60, 10, 1.0, 0, 60),
        (60, 10, 0.5, 0, 30),  # of 80: 40, of which 10 are held
        (20, 10, 0.5, 0, 20),
        (60, 10, 1.0, 25, 15),
        (60, 10, 0.25, 25, 10),
        (60, 30, 0.25, 0, 0),
    ],
)
def test_torch_has_no_more_free_than_it_may_take(
    stand_in: StandInTorch,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    reserved: int,
    fraction: float,
    limit: int,
    expected: int,
) -> None:
    stand_in.cuda.mem_get_info = lambda _: (free, 80)
    stand_in.cuda.memory_stats = lambda _: {"reserved_bytes.all.current": reserved}
    stand_in.cuda.get_per_process_memory_fraction = lambda _: fraction
    monkeypatch.setattr("vram.torch.is_enabled", lambda: limit > 0)
    monkeypatch.setattr(_torch_training, "stats", lambda _: SimpleNamespace(limit_bytes=limit))
    assert TorchTraining(stand_in).free_bytes(0) == expected


def test_torch_says_when_a_graph_is_being_captured(stand_in: StandInTorch) -> None:
    framework = TorchFramework(stand_in)
    assert framework.unavailable_reason() is None
    stand_in.capturing = True
    assert framework.unavailable_reason() == "a CUDA graph is being captured"


def test_torch_says_what_it_has_of_pinned_memory_not_what_it_believes_to_be_in_use(stand_in: StandInTorch) -> None:
    framework = TorchFramework(stand_in)
    assert framework.pinned_bytes() == 96
    stand_in.cuda.host_memory_stats = lambda: {"reserved_bytes.current": 80, "allocated_bytes.current": 64}
    assert framework.pinned_bytes() == 80
    stand_in.cuda.host_memory_stats = dict
    assert framework.pinned_bytes() == 0
    assert framework.release_host_cache() is None
    assert stand_in.done == ["host"]


def test_torch_without_a_gpu_keeps_nothing() -> None:
    framework = framework_of("torch")
    assert framework.unavailable_reason() is None
    assert framework.clear_workspaces() == "CUDA is not in use"
    assert framework.pinned_bytes() is None
    assert framework.release_host_cache() is not None


def test_torch_says_what_a_tensor_is() -> None:
    whole = torch.zeros(2, 3, dtype=torch.float16)
    tensor = framework_of("torch").tensor(whole[0])
    assert tensor is not None
    assert (tensor.shape, tensor.dtype, tensor.device, tensor.on_gpu, tensor.storage_bytes) == (
        (3,), "float16", "cpu", False, 12,
    )  # fmt: skip
    other = framework_of("torch").tensor(whole)
    assert other is not None
    assert other.storage == tensor.storage
    assert framework_of("torch").tensor([]) is None

"""The GPU that a program finds during a dry run, and PyTorch as before it afterwards."""

# mypy: allow-untyped-calls

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

import vram
from vram._error import VramError
from vram.dry import dry_run
from vram.dry._gpu import find_gpu


def test_properties(tmp_path: Path) -> None:
    with dry_run("RTX 4090", path=tmp_path / "dry.vtrace"):
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        assert torch.cuda.get_device_capability() == (8, 9)
        assert torch.cuda.get_device_properties(0).total_memory == find_gpu("RTX 4090").total_bytes
        assert torch.cuda.get_device_name() == "NVIDIA RTX 4090"
        assert torch.cuda.is_bf16_supported()
        free, total = torch.cuda.mem_get_info()
        kept = torch.empty(1 << 20, device="cuda")
        assert torch.cuda.memory_allocated() == 4 << 20
        assert torch.cuda.mem_get_info() == (free - (20 << 20), total)  # a segment
        del kept
        assert (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()) == (0, 4 << 20)
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() == 0


def test_figures_of_memory_have_pytorchs_names(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace"):
        kept = torch.empty(1 << 20, device="cuda")
        stats = torch.cuda.memory_stats()
        assert stats["allocated_bytes.all.peak"] == kept.nbytes
        for name in ("allocation.large_pool.current", "allocated_bytes.large_pool.peak", "num_device_alloc"):
            assert f"{stats[name] / 2:.1f}" == "unknown"
        assert torch.cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"] == 20 << 20
        rows = [line.split() for line in torch.cuda.memory_summary(abbreviated=True).splitlines()]
        assert rows[1:3] == [["allocated", "4", "MiB", "4", "MiB"], ["requested", "4", "MiB", "4", "MiB"]]
        assert torch.cuda.get_per_process_memory_fraction() == 1
        torch.cuda.set_per_process_memory_fraction(0.5)
        assert torch.cuda.get_per_process_memory_fraction() == pytest.approx(0.5)
        assert torch.cuda.temperature() == torch.cuda.power_draw() == 0


@pytest.mark.skipif(not hasattr(torch.accelerator, "memory"), reason="PyTorch 2.9 and later have it")
def test_the_accelerator_has_the_same_figures(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace"):
        kept = torch.empty(1 << 20, device="cuda")
        for module in (torch.accelerator, torch.accelerator.memory):
            assert module.memory_allocated() == module.max_memory_allocated(0) == kept.nbytes
            assert module.memory_reserved() == module.max_memory_reserved() == 20 << 20
            assert module.get_memory_info() == torch.cuda.mem_get_info()
            assert module.memory_stats()["allocated_bytes.all.current"] == kept.nbytes
        del kept
        torch.accelerator.reset_peak_memory_stats()
        torch.accelerator.empty_cache()
        assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_reserved() == 0


def test_streams_events_generators_and_pinned_memory(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        side, begin, end = (
            torch.cuda.Stream(),
            torch.cuda.Event(enable_timing=True),
            torch.cuda.Event(enable_timing=True),
        )
        begin.record()
        with torch.cuda.stream(side):
            assert torch.cuda.current_stream() == side
            x = torch.ones(8).pin_memory().to("cuda", non_blocking=True)
            x.record_stream(torch.cuda.current_stream())
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
        end.record()
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) > 0
        generator = torch.Generator("cuda").manual_seed(1)
        assert torch.randn(4, device="cuda", generator=generator).device == torch.device("cuda", 0)
        assert generator.device.type == "cuda"


def attributes() -> list[Any]:
    owners = (torch, torch.cuda, torch.cuda.memory, torch.nn.Module, torch.Tensor, torch.UntypedStorage, torch.utils)
    return [dict(vars(owner)) for owner in owners]


def test_everything_is_put_back(tmp_path: Path) -> None:
    import torch.utils.checkpoint  # what PyTorch imports on use

    torch.cuda.is_available()
    with dry_run(path=tmp_path / "first.vtrace"):
        pass
    before = attributes()
    with pytest.raises(ZeroDivisionError), dry_run(path=tmp_path / "dry.vtrace"):
        torch.ones(1, device="cuda") / (1 // 0)
    assert attributes() == before
    assert not torch.cuda.is_available()
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]
    assert not vram.is_recording()


def test_one_at_a_time(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        with pytest.raises(VramError, match="recorded already"), dry_run(path=tmp_path / "other.vtrace"):
            pass
        with pytest.raises(VramError, match="with statement has ended"):
            _ = run.peak
    with pytest.raises(VramError, match="runs once"), run:
        pass


def test_unknown_gpus_are_refused() -> None:
    with pytest.raises(ValueError, match=r"RTX 4090.*24GiB"):
        dry_run("Voodoo")
    assert find_gpu("24GiB").total_bytes == int(0.98 * (24 << 30))


@pytest.mark.parametrize("rows", [8, 4096], ids=["real", "fake"])
def test_parameters_stay_the_same_objects(rows: int, tmp_path: Path) -> None:
    """Optimizers and tied weights hold them from before the model moves."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        table, head = nn.Embedding(rows, 64), nn.Linear(64, rows, bias=False)
        head.weight = table.weight
        optimizer = torch.optim.SGD(head.parameters(), 0.1)
        model = nn.Sequential(table, head).cuda()
        assert model[0].weight is model[1].weight is optimizer.param_groups[0]["params"][0]
        assert model[0].weight.device.type == "cuda"
        assert isinstance(model[0].weight, nn.Parameter)
        assert torch.cuda.memory_allocated() == rows * 64 * 4
        model.half()
        assert torch.cuda.memory_allocated() == rows * 64 * 2
        assert torch.cuda.max_memory_allocated() == rows * 64 * 6


@pytest.mark.parametrize("rows", [8, 4096], ids=["real", "fake"])
def test_the_data_of_a_parameter_moves(rows: int, tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        layer = nn.Linear(64, rows, bias=False)
        weight = layer.weight
        weight.data = weight.data.to("cuda")
        assert weight is layer.weight
        assert isinstance(weight, nn.Parameter)
        assert weight.device.type == "cuda"
        assert weight.requires_grad
        assert torch.cuda.memory_allocated() == rows * 64 * 4
        layer(torch.ones(2, 64, device="cuda")).sum().backward()
        assert weight.grad is not None
        before = torch.cuda.memory_allocated()
        weight.data = weight.data.half()
        assert before - torch.cuda.memory_allocated() == rows * 64 * 2
    plain = nn.Parameter(torch.ones(2))
    plain.data = torch.zeros(2)
    assert plain.tolist() == [0, 0]


def test_a_model_from_before_moves_too(tmp_path: Path) -> None:
    model = nn.Linear(16, 16)
    weight = model.weight
    with dry_run(path=tmp_path / "dry.vtrace"):
        model.cuda()
        assert model.weight is weight
        assert model(torch.ones(2, 16, device="cuda")).device.type == "cuda"


def test_what_is_left_of_a_dry_run_says_so(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.Linear(512, 512).cuda()
        with pytest.raises(RuntimeError, match="same device"):  # as for real
            model(torch.ones(2, 512))
    for device in ("cpu", "meta"):
        with pytest.raises(VramError, match=rf"{Path(__file__).name}:\d+: a tensor from a dry run .*make the model"):
            model(torch.ones(2, 512, device=device))


def test_an_error_of_shapes_is_not_logged_besides(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    logger.addHandler(caplog.handler)
    try:
        with dry_run(path=tmp_path / "dry.vtrace"), pytest.raises(RuntimeError, match="2, 11"):
            nn.Linear(10, 10).cuda()(torch.ones(2, 11, device="cuda"))
    finally:
        logger.removeHandler(caplog.handler)
    assert not caplog.records
    assert not logger.disabled


def test_a_memory_fraction_is_a_limit(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace"):
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((100 << 20) / total)
        kept = [torch.empty(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
        with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate 40.* MiB"):
            torch.empty(40 << 20, dtype=torch.uint8, device="cuda")
        kept.pop()
        kept.pop()
        torch.empty(40 << 20, dtype=torch.uint8, device="cuda")  # after what is unused went back
        stats = torch.cuda.memory_stats()
        assert (stats["num_ooms"], stats["num_alloc_retries"]) == (1, 2)
        assert stats["reserved_bytes.all.current"] == 80 << 20
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated() == 40 << 20
        assert 80 << 20 <= torch.cuda.max_memory_reserved() <= 100 << 20


def test_programs_handle_the_end_of_the_memory(tmp_path: Path) -> None:
    def largest() -> int:
        for gib in (30, 22, 10):
            try:
                torch.empty(gib << 30, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                continue
            return gib
        return 0

    with dry_run("24GiB", path=tmp_path / "dry.vtrace"):
        assert largest() == 30
    with dry_run("24GiB", path=tmp_path / "dry.vtrace", raise_oom=True):
        assert largest() == 22
    with pytest.raises(torch.OutOfMemoryError), dry_run("24GiB", path=tmp_path / "dry.vtrace", raise_oom=True):
        torch.empty(30 << 30, dtype=torch.uint8, device="cuda")


def test_an_operator_that_only_writes_needs_no_fake_kernel(tmp_path: Path) -> None:
    """The fused SGD has none in PyTorch 2.13, and returns nothing."""
    with dry_run(path=tmp_path / "dry.vtrace") as run:
        model = nn.Linear(256, 256, device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
        for _ in range(2):
            model(torch.randn(8, 256, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not run.unknown_operators
    states = [holder for holder in optimizer.state.values() if "momentum_buffer" in holder]
    assert len(states) == 2
    assert run.peak.requested_bytes >= 3 * 4 * 256 * 257


MASKS = """
def find_packed_sequence_indices(position_ids):
    found = (position_ids.diff(dim=-1, prepend=position_ids[:, :1] - 1) != 1).cumsum(-1)
    is_one = not is_tracing(found) and (found[:, -1] == 0).all()
    seen.append(is_one)
    return None if is_one else found

def needs_mask(padding):
    if is_tracing(padding):
        return True
    is_whole = padding.all()
    seen.append(is_whole)
    return not is_whole
"""


def test_transformers_skips_masks_as_in_a_real_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real run finds no packed sequences in ordinary positions; the library assumes packing where tensors are fake."""
    masks: Any = ModuleType("transformers.masking_utils")
    seen: list[Any] = []
    is_tracing = masks.is_tracing = lambda tensor=None: isinstance(tensor, FakeTensor)
    masks.seen = seen
    exec(compile(MASKS, "/site-packages/transformers/masking_utils.py", "exec"), masks.__dict__)
    original = masks.find_packed_sequence_indices
    monkeypatch.setitem(sys.modules, masks.__name__, masks)

    class Model(nn.Module):
        def forward(self, positions: torch.Tensor) -> Any:
            return masks.find_packed_sequence_indices(positions)

    with dry_run(path=tmp_path / "dry.vtrace"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert Model()(torch.arange(8, device="cuda")[None]) is None
        assert isinstance(seen.pop(), FakeTensor), "read while what it was computed from is alive, as in a real run"
        assert not masks.needs_mask(torch.ones(2, 8, dtype=torch.int64, device="cuda").to(torch.bool))
        assert masks.needs_mask(torch.tensor([[1, 1], [1, 0]]).cuda().to(torch.bool))
        seen.clear()
        assert masks.needs_mask(torch.randint(2, (2, 8), device="cuda").to(torch.bool)), "padding that is not known"
        assert [each.device.type for each in seen] == ["cuda"], "its answer takes memory, as in a real run"
        seen.clear()
        assert Model()(torch.tensor([[0, 1, 0, 1]])).tolist() == [[0, 0, 1, 1]]
    assert (masks.find_packed_sequence_indices, masks.is_tracing) == (original, is_tracing)


def test_gradients_where_they_are_stay(tmp_path: Path) -> None:
    """A module that moves to where it is keeps its gradients, and one that moves takes them along."""
    with dry_run(path=tmp_path / "dry.vtrace"):
        model = nn.Linear(3, 3).cuda()
        model(torch.randn(2, 3, device="cuda")).sum().backward()
        for device in ("cuda", "cuda", "cpu", "cpu"):
            model.to(device)
            assert model.weight.grad is not None
            assert (model.weight.grad.shape, model.weight.grad.device.type) == ((3, 3), device)
            assert model.weight.device.type == device


def test_profilers_profile_the_host(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where PyTorch sees no GPU; without what its profiler writes about each operator then."""
    from torch.profiler import ProfilerActivity, profile

    with dry_run(path=tmp_path / "dry.vtrace"):
        x = torch.ones(8, device="cuda", requires_grad=True)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as found:
            (x * 2).sum().backward()
        assert any(each.key == "aten::mul" for each in found.key_averages())
        assert "aten::mul" in found.key_averages().table(sort_by="cuda_time_total")
        with profile(activities=[ProfilerActivity.CUDA]), torch.autograd.profiler.emit_nvtx():
            x * 2
        with torch.cuda.profiler.profile():
            x * 2
    assert "Failed to record CUDA event" not in capfd.readouterr().err


def test_cuda_graphs_are_refused(tmp_path: Path) -> None:
    with dry_run(path=tmp_path / "dry.vtrace"):
        with pytest.raises(VramError, match=r"test_dry_machine.py:\d+: a dry run does not capture CUDA graphs"):
            torch.cuda.CUDAGraph()
        assert torch.cuda.CUDAGraph | None  # as annotations of libraries
        with pytest.raises(VramError, match="does not capture CUDA graphs"), torch.cuda.graph(None):  # type: ignore[arg-type]
            pass

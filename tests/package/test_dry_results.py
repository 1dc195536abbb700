"""The results of a dry run: peaks by a replay, whether it fits, and what holds the memory."""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import resource
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import vram
from vram.dry import DryRun, DryRunFits, dry_run
from vram.dry._results import fits_near

MIB = 1 << 20


def train(steps: int = 2, width: int = 1024) -> None:
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(64, width, device="cuda")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def run_of(tmp_path: Path, gpu: str = "24GiB", **options: Any) -> DryRun:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run(gpu, path=tmp_path / f"{len(list(tmp_path.iterdir()))}.vtrace", **options) as run:
            train()
    return run


def replayed(run: DryRun, allocator: str) -> dict[str, Any]:
    command = [str(vram.program()), "replay", str(run.trace_path), "--json", "--allocator", allocator]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    return answer


def test_a_least_memory_that_variants_confirm_has_a_smaller_margin(tmp_path: Path) -> None:
    varied = run_of(tmp_path)
    alone = run_of(tmp_path, allocator="torch:expandable_segments=True")
    assert 0 < varied.relative_error < alone.relative_error
    with dry_run("24GiB", path=tmp_path / "dry.vtrace", raise_oom=True) as refused:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    assert refused.relative_error > varied.relative_error, "its least memory is that of one layout of addresses"


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ([(0, 900)], "fits"),  # its least memory and a margin suffice
        ([(0, 980), (1100, 1110)], "fits"),  # more fails, but not near
        ([(0, 980), (1031, 1040)], "no"),  # a little more fails: it may need a little less than predicted
        ([(0, 980), (1000, 1010)], "no"),  # a little less fails
        ([(0, 980), (1030, 1032)], "no"),  # a little more fails, and the amounts next to it do not
        ([(0, 980), (1012, 1014)], "no"),
        ([(0, 1050)], "no"),
    ],
)
def test_what_fails_far_from_the_memory_of_the_gpu_does_not_count(
    failing: list[tuple[int, int]], expected: str
) -> None:
    needed, total, error = failing[-1][1] * MIB, 1024 * MIB, 0.01

    def shares_completed(totals: list[int]) -> list[float]:
        return [float(not any(low <= each / MIB < high for low, high in failing)) for each in totals]

    fits = fits_near(total, needed, error, shares_completed, needed - 1)
    assert bool(fits) == (expected == "fits"), fits
    assert not fits or fits.needed_bytes <= fits.total_bytes
    some = fits_near(total, needed, error, lambda totals: [each - 0.1 for each in shares_completed(totals)], needed - 1)
    assert some.probability <= fits.probability, "a share of the layouts is not enough"


def test_the_trace_of_another_run_decides_nothing(tmp_path: Path) -> None:
    def run_of_bytes(size_bytes: int, gpu: str) -> DryRun:
        with dry_run(gpu, path=tmp_path / "dry.vtrace") as run:
            torch.empty(size_bytes, dtype=torch.uint8, device="cuda")
        return run

    needed = run_of_bytes(1 << 30, "24GiB").fits.needed_bytes
    gpu = f"{int((needed + 4 * MIB) / 0.98)}B"
    run = run_of_bytes(1 << 30, gpu)
    assert run.relative_error, "asks for the least memory, which is kept"
    run_of_bytes(10 << 20, gpu)
    with pytest.raises(vram.VramError, match="replaced or deleted"):
        print(run.fits)


def test_the_peaks_are_those_of_a_replay(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    weights = 4 * (1024 * 4096 * 2 + 4096 + 1024)
    assert run.steps == 2
    # At the second step: parameters, gradients, two states, and one temporary of the multi-tensor optimizer.
    assert 5 * weights <= run.peak.requested_bytes < 5 * weights + (80 << 20)
    assert run.peak.reserved_bytes == replayed(run, "torch")["results"][0]["peak_reserved_bytes"]
    assert run.peak.reserved_bytes >= run.peak.requested_bytes
    assert run.peak.device_bytes - run.peak.reserved_bytes == 787283968, (
        "as alone on an H200: two handles of cuBLAS, no cuDNN"
    )


def test_the_trace_has_the_segments_of_pytorchs_allocator(tmp_path: Path) -> None:
    """The placement of the dry run and the emulated allocator of replays agree, call by call."""
    answer = replayed(run_of(tmp_path), "torch")
    assert answer["is_reproduced"] is True
    assert answer["reproduced_calls"] == answer["recorded_calls"] > 0


def test_other_allocators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native = run_of(tmp_path)
    expandable = run_of(tmp_path, allocator="torch:expandable_segments=True")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    of_environment = run_of(tmp_path)
    assert of_environment.peak == expandable.peak != native.peak
    assert of_environment.relative_error == expandable.relative_error


def test_fits(tmp_path: Path) -> None:
    fits = run_of(tmp_path).fits
    assert fits
    assert fits.probability > 0.998
    tight = run_of(tmp_path, gpu=str(int(fits.needed_bytes / 0.98 * 1.01))).fits
    assert not tight, "1 % of room is not enough to promise it"
    assert 0.5 < tight.probability < 0.998
    assert run_of(tmp_path, gpu=str(int((fits.needed_bytes * 1.015 + (69 << 20)) / 0.98))).fits
    assert run_of(tmp_path, gpu="512MiB").fits.probability < 0.01
    assert not DryRunFits(0.99, 1, 1)


def test_requests_that_failed_are_not_counted(tmp_path: Path) -> None:
    with dry_run("24GiB", path=tmp_path / "dry.vtrace", raise_oom=True) as run:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
        kept = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    del kept
    assert 2 << 30 <= run.peak.reserved_bytes < 3 << 30
    assert run.fits


def test_a_run_that_ends_out_of_memory_does_not_fit(tmp_path: Path) -> None:
    run = dry_run("24GiB", path=tmp_path / "dry.vtrace", raise_oom=True)
    with pytest.raises(torch.OutOfMemoryError), run:
        torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
    assert not run.fits


def test_fits_says_what_it_is_not_about(tmp_path: Path) -> None:
    def ends_with(error: BaseException) -> None:
        train()
        raise error

    run = dry_run("24GiB", path=tmp_path / "dry.vtrace")
    with pytest.raises(ZeroDivisionError), run:
        ends_with(ZeroDivisionError())
    with pytest.warns(UserWarning, match="ended with ZeroDivisionError"):
        assert run.fits
    with dry_run("24GiB", path=tmp_path / "one.vtrace") as run:
        train(steps=1)
    with pytest.warns(UserWarning, match="run two steps"):
        assert run.fits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = dry_run("24GiB", path=tmp_path / "two.vtrace")
        with pytest.raises(SystemExit), run:
            ends_with(SystemExit(0))
        assert run.fits


def test_a_gpu_that_is_no_text() -> None:
    given: Any
    for given in (torch.nn.Linear, 80, None, b"24GiB"):
        with pytest.raises(TypeError, match="expected gpu to be a name such as"):
            dry_run(given)


def test_a_gpu_that_does_not_exist(tmp_path: Path) -> None:
    for count in (1, 2):
        with dry_run("24GiB", path=tmp_path / "dry.vtrace", world_size=count):
            torch.empty(8, device=f"cuda:{count - 1}")
            with pytest.raises(RuntimeError, match=rf"{count} GPU.* no device {count}; state world_size"):
                torch.empty(8, device=f"cuda:{count}")


def test_what_holds_the_memory(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    modules = run.by_module()
    weight = 4 * 1024 * 4096
    assert modules["0"]["parameter"] == modules["0"]["gradient"] == weight + 4 * 4096
    assert modules["0"]["optimizer state"] == 2 * (weight + 4 * 4096)
    assert sum(sum(of.values()) for of in modules.values()) == run.peak.requested_bytes
    largest = run.why()
    assert (largest[0].name, largest[0].category) == ("optimizer", "temporary")
    assert [each.requested_bytes for each in largest] == sorted((e.requested_bytes for e in largest), reverse=True)
    assert "PEAK" in run.report()


class Block(nn.Module):
    """As in LLaMA, without rotary positions."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.inner_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        h = self.norm(x)
        q, k, v = (
            each(h).view(batch, length, self.heads, -1).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(batch, length, width))
        h = self.inner_norm(x)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


def test_seven_billion_parameters_in_seconds(tmp_path: Path) -> None:
    """Measured in seconds of the processor, because other tests may run: 2.5 s for two steps."""
    began, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run(path=tmp_path / "dry.vtrace") as run:
            model = nn.Sequential(
                nn.Embedding(32000, 4096),
                *(Block(4096, 32, 11008) for _ in range(32)),
                nn.Linear(4096, 32000, bias=False),
            ).to("cuda", torch.bfloat16)
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(2):
                tokens = torch.randint(0, 32000, (1, 2048)).cuda()
                loss = functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    assert parameters > 6_700_000_000
    assert 5 * 2 * parameters <= run.peak.requested_bytes < 5.1 * 2 * parameters
    assert time.process_time() - began < 10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) << 10 < 1 << 30


@pytest.mark.parametrize(("room_mib", "fits"), [(10, False), (200, True)])
def test_a_memory_fraction_of_the_program_is_what_it_has(room_mib: int, fits: bool, tmp_path: Path) -> None:
    """PyTorch refuses more, and whether the prediction is below it is as uncertain as below the memory of the GPU."""
    limit = 1 << 30
    with dry_run("24GiB", path=tmp_path / "dry.vtrace") as run:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((limit + 1) / total)
        torch.empty(limit - (room_mib << 20), dtype=torch.uint8, device="cuda")
    assert bool(run.fits) == fits
    assert limit <= run.fits.total_bytes - run._running().outside_bytes <= limit + 1
    with dry_run("24GiB", path=tmp_path / "dry.vtrace") as run:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.empty(limit, dtype=torch.uint8, device="cuda")
    assert run.fits.total_bytes == total


@pytest.mark.parametrize(("gpu", "share"), [("512MiB", 1.0), ("24GiB", 0.0)], ids=["GPU", "fraction"])
def test_where_nothing_is_left_for_the_program_it_does_not_fit(gpu: str, share: float, tmp_path: Path) -> None:
    run = dry_run(gpu, path=tmp_path / "dry.vtrace", raise_oom=True)

    def request() -> None:
        with run:
            torch.cuda.set_per_process_memory_fraction(share)
            torch.empty(1 << 20, dtype=torch.uint8, device="cuda")

    with pytest.raises(torch.OutOfMemoryError):
        request()
    assert not run.fits
    assert run.peak.reserved_bytes == 0


def test_a_lazy_module_that_is_not_called_has_no_parameters(tmp_path: Path) -> None:
    class Model(nn.Linear):
        def __init__(self) -> None:
            super().__init__(8, 8)
            self.unused = nn.LazyLinear(8)

    with dry_run(path=tmp_path / "dry.vtrace") as run:
        Model()(torch.ones(2, 8).cuda().cpu())
        torch.ones(2).cuda()
    assert list(run._parameters) == ["weight", "bias"]


def test_the_gpu_that_needs_most_need_not_request_most(tmp_path: Path) -> None:
    def blocks(number: int, mib: int, device: str) -> list[Any]:
        return [torch.empty(mib << 20, dtype=torch.uint8, device=device) for _ in range(number)]

    with dry_run("24GiB", path=tmp_path / "dry.vtrace", world_size=2) as run:
        blocks(1, 520, "cuda:0")
        kept = blocks(100, 5, "cuda:1")[::4]  # one of four in each segment
        kept += blocks(1, 250, "cuda:1")
    assert run.peak.requested_bytes == 520 << 20
    assert run.fits.needed_bytes - run._running().outside_bytes == 750 << 20

"""The clock of a dry run: what operators take on the pretended GPU, and that the trace has these times."""

# mypy: allow-untyped-calls

from __future__ import annotations

import csv
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from vram.dry import _tape, dry_run
from vram.dry._clock import Rates, _data
from vram.dry._gpu import _KNOWN, find_gpu

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("VRAM_PROGRAM", str(ROOT / "build" / "release" / "src" / "vram"))


def time_of(call: Any, tmp_path: Path, gpu: str = "H200") -> int:
    """The time of `call` on the pretended GPU, in ns. What it returns is called first, and is not timed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run(gpu, path=tmp_path / "dry.vtrace") as run:
            clock = run._running().clock
            timed = call()
            began = clock.now_ns
            timed()
            return int(clock.now_ns - began)


def matmul(dtype: torch.dtype) -> Any:
    a = torch.empty(8192, 8192, dtype=dtype, device="cuda")
    return lambda: a @ a


def test_a_matrix_product_takes_its_operations(tmp_path: Path) -> None:
    operations = 2 * 8192**3
    rates = Rates.of(find_gpu("H200"))
    expected = rates.launch_ns + operations / (989.4e12 * 0.65) * 1e9
    assert time_of(lambda: matmul(torch.bfloat16), tmp_path) == pytest.approx(expected, abs=2)
    assert time_of(lambda: matmul(torch.float32), tmp_path) == pytest.approx(
        rates.launch_ns + operations / (66.9e12 * 0.65) * 1e9, abs=2
    )
    assert time_of(lambda: matmul(torch.bfloat16), tmp_path, "RTX 4090") > 5 * expected


def test_tf32_if_the_program_allows_it(tmp_path: Path) -> None:
    without = time_of(lambda: matmul(torch.float32), tmp_path)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        assert time_of(lambda: matmul(torch.float32), tmp_path) < without / 5
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def test_an_elementwise_operator_takes_its_bytes(tmp_path: Path) -> None:
    def add() -> Any:
        a, row = torch.empty(1024, 1 << 20, device="cuda"), torch.empty(1, 1 << 20, device="cuda")
        return lambda: a + row.expand(1024, -1)

    rates = Rates.of(find_gpu("H200"))
    moved = 2 * (4 << 30) + (4 << 20)  # the view takes nothing, and is as large as the row
    assert time_of(add, tmp_path) == pytest.approx(rates.launch_ns + moved / (4.8e12 * 0.8) * 1e9, abs=2)


def test_views_and_empty_tensors_take_nothing(tmp_path: Path) -> None:
    def view() -> Any:
        a = torch.empty(1024, 1024, device="cuda")
        return lambda: (a.view(-1)[5:].detach(), torch.empty_like(a))

    assert time_of(view, tmp_path) == 0


def test_a_lookup_reads_the_rows_that_it_writes(tmp_path: Path) -> None:
    def look_up() -> Any:
        table, rows = torch.empty(1 << 20, 1024, device="cuda"), torch.arange(4096).cuda()
        return lambda: nn.functional.embedding(rows, table)

    rates = Rates.of(find_gpu("H200"))
    expected = rates.launch_ns + 2 * (4096 * 1024 * 4) / (4.8e12 * 0.8) * 1e9
    assert time_of(look_up, tmp_path) == pytest.approx(expected, abs=2)


def test_backward_of_a_convolution_takes_twice_its_forward(tmp_path: Path) -> None:
    def convolution(needs_input_gradient: bool) -> Any:
        layer = nn.Conv2d(256, 256, 3, padding=1, device="cuda", dtype=torch.bfloat16)
        x = torch.empty(64, 256, 56, 56, device="cuda", dtype=torch.bfloat16, requires_grad=needs_input_gradient)
        gradient = torch.empty_like(x)
        y = layer(x)
        return (lambda: layer(x)), (lambda: y.backward(gradient))

    forward = time_of(lambda: convolution(True)[0], tmp_path)
    assert time_of(lambda: convolution(True)[1], tmp_path) == pytest.approx(2 * forward, rel=0.1)
    assert time_of(lambda: convolution(False)[1], tmp_path) == pytest.approx(forward, rel=0.1)


def test_rates_are_of_known_gpus_and_name_their_source() -> None:
    rates_of = _data()["gpus"]
    known = {gpu.name: gpu for gpu in _KNOWN}
    assert set(rates_of) <= set(known)
    for name in rates_of:
        rates = Rates.of(known[name])
        assert not rates.assumption
        assert rates_of[name]["source"]
        assert rates.of_dtype(torch.float16, allows_tf32=False) > rates.of_dtype(torch.float32, allows_tf32=False)


@pytest.mark.parametrize("gpu", ["24GiB", "A30"])
def test_a_gpu_without_published_rates_has_those_of_an_h200(gpu: str) -> None:
    rates, assumed = Rates.of(find_gpu(gpu)), Rates.of(find_gpu("H200"))
    assert rates.of_bytes == assumed.of_bytes
    assert "times are those of an H200" in rates.assumption
    assert not assumed.assumption


def train() -> None:
    model = nn.Linear(512, 512, device="cuda")
    for _ in range(2):
        model(torch.empty(64, 512, device="cuda")).sum().backward()


def trace_times(tmp_path: Path, gpu: str) -> list[int]:
    path = tmp_path / "dry.vtrace"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with dry_run(gpu, path=path):
            train()
    subprocess.run(
        [PROGRAM, "convert", str(path), str(tmp_path / "dry.csv")], check=True, capture_output=True, timeout=60
    )
    rows = list(csv.DictReader((tmp_path / "dry.csv").read_text().splitlines()))
    times = [int(row["time_ns"]) for row in rows if row["action"] == "alloc"]
    return [each - times[0] for each in times]


def test_the_trace_has_these_times(tmp_path: Path) -> None:
    """The same in each run, of the order of the kernels' times and not of the host's."""
    first = trace_times(tmp_path, "H200")
    assert first == trace_times(tmp_path, "H200")
    assert first == sorted(first)
    assert 10_000 < first[-1] < 1_000_000
    assert trace_times(tmp_path, "T4")[-1] > first[-1]


def test_the_trace_says_whose_rates_are_assumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, str] = {}
    monkeypatch.setattr(_tape.Tape, "about", lambda _tape, key, value: said.update({key: value}))
    trace_times(tmp_path, "24GiB")
    assert "times are those of an H200" in said["vram.dry_run.rates"]
    said.clear()
    trace_times(tmp_path, "H200")
    assert "vram.dry_run.rates" not in said
